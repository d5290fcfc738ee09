"""How a model is split over ranks, by the plan of its config in transformers.

A plan names matrices and how each is split::

    layers.*.self_attn.q_proj   colwise   each rank computes some of the outputs: its heads
    layers.*.self_attn.o_proj   rowwise   each rank reads some of the inputs; sums are added up
    layers.*.mlp.down_proj      rowwise

Everything that no rule names (norms, routers) is whole on every rank. So is the attention of a
model whose heads cannot be divided evenly among the ranks: its rules are then left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final

from guided.kv.layer_groups import LayerShape
from guided.model.layer_configs import layer_configs, layer_shapes
from guided.model.parallel.split import Parallelism, RankShare, cannot_split, refuse_by_config
from guided.model.plain_config import PlainConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from guided.model.model_files import ModelFiles

__all__ = ["TensorPlan", "tensor_plan"]

_ATTENTION: Final = re.compile(r"(attn|attention)")
_KEYS: Final = ("k_proj", "kv_b_proj", "qkv_proj", "query_key_value")
"""What makes keys; if its outputs stay split, so do the cache's heads."""
_ENDS: Final = ("embed_tokens", "lm_head")
"""Split by the vocabulary, in every model that has a plan."""
_SPLIT: Final = ("colwise", "rowwise", "packed_", "embedding_")
"""The prefixes of styles that split a weight."""
_ONE_BY_ONE: Final = re.compile(r"\.experts\.\d+\.")
"""Experts that files store one by one, and transformers in one tensor."""


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """How a model is split."""

    ranks: int
    rules: Mapping[str, str]
    """The part of transformers' plan for the base model that is followed."""
    layers: tuple[LayerShape, ...]
    """What each rank keeps of a token."""
    share: float
    """The part of the numbers in the files that each rank holds, from 0 to 1."""
    is_attention_whole: bool
    """Whether all ranks compute all heads, because these cannot be divided evenly."""

    @property
    def shares(self) -> tuple[RankShare, ...]:
        """What every rank holds."""
        return (RankShare(self.share, self.layers, "a share of each matrix"),)

    @property
    def note(self) -> str:
        """What a plan's memory refers to if there are several ranks."""
        whole = ", all of the attention" if self.is_attention_whole else ""
        return f"each takes this{whole}"


def tensor_plan(files: ModelFiles, config: PretrainedConfig, ranks: int) -> TensorPlan:
    """Make the plan for a model; ``config`` is that of transformers.

    Raises ``ModelError`` for a model that cannot be split.
    """
    text = config.get_text_config()
    tp_plan: Mapping[str, str] = getattr(text, "base_model_tp_plan", None) or {}
    refuse_by_config(config, Parallelism.TENSOR)
    if not tp_plan:
        reason = "has no plan for it in transformers (base_model_tp_plan)"
        raise cannot_split(config, Parallelism.TENSOR, reason)
    shapes = layer_shapes(config)
    is_whole = any(heads % ranks for heads in _heads(config, shapes))
    rules = {
        rule: how for rule, how in tp_plan.items() if not (is_whole and _ATTENTION.search(rule))
    }
    splits_keys = any(rule.endswith(_KEYS) and how == "colwise" for rule, how in rules.items())
    return TensorPlan(
        ranks=ranks,
        rules=rules,
        layers=tuple(
            replace(shape, heads=shape.heads // ranks) if splits_keys else shape for shape in shapes
        ),
        share=_share(files.checkpoint.shapes, rules, ranks),
        is_attention_whole=is_whole or not splits_keys,
    )


def _heads(config: PretrainedConfig | PlainConfig, shapes: tuple[LayerShape, ...]) -> set[int]:
    """Return all counts of heads, of queries and of keys."""
    queries = {int(layer.num_attention_heads) for layer in layer_configs(config)}
    return queries | {shape.heads for shape in shapes}


def _share(shapes: Mapping[str, tuple[int, ...]], rules: Mapping[str, str], ranks: int) -> float:
    """Return a rank's part of all numbers; matrices that do not divide count as if they did."""
    split = [rule for rule, how in rules.items() if how.startswith(_SPLIT)]
    has_experts = any(".experts." in rule for rule in split)
    whole = held = 0.0
    for name, shape in shapes.items():
        part = re.sub(r"\.\d+(?=\.)", ".*", name).removesuffix(".weight").removesuffix(".bias")
        is_split = part.endswith((*split, *_ENDS))
        is_split = is_split or (has_experts and _ONE_BY_ONE.search(name) is not None)
        whole += prod(shape)
        held += prod(shape) / (ranks if is_split else 1)
    return held / whole
