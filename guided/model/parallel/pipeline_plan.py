"""Which layers each rank has, if a model is split by its layers: as evenly as bytes allow.

Ranks stand in a line, and the engine's is the last: it has the head, so that logits are where they
are read::

    rank 1                  rank 2              rank 0
    embedding, layers ────▶ layers ──────────▶ layers, norm, head

An embedding that is also the head is on the first rank and on the last. Everything that is not
layer, embedding or head (norms, image encoders) is on every rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, prod
from typing import TYPE_CHECKING, Any, Final

from guided.kv.layer_groups import NO_KEYS, LayerShape
from guided.model.layer_configs import layer_shapes
from guided.model.parallel.split import Parallelism, RankShare, cannot_split, refuse_by_config
from guided.model.stage import Stage

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from guided.model.model_files import ModelFiles

__all__ = ["PipelinePlan", "pipeline_plan", "place_in_line", "rank_at", "split_evenly"]

_PARTS: Final = {"embed_tokens", "layers", "norm"}
"""The parts, besides a head, of the models that can be split."""
_ACROSS: Final = {
    "num_kv_shared_layers": "has layers that read the keys of others",
    "hidden_size_per_layer_input": "has layers that read an embedding of their own",
}
"""Settings that make layers depend on more than the layer before."""
_NAME: Final = re.compile(
    r"(?:(?:model|language_model|text_model)\.)*(?:layers\.(\d+)|(embed_tokens|lm_head))\."
)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """How the layers of a model are split."""

    stages: tuple[Stage, ...]
    """In the order in which they compute."""
    shares: tuple[RankShare, ...]
    """By rank."""

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.stages)

    @property
    def note(self) -> str:
        """What a plan's memory refers to if there are several ranks."""
        return "none takes more than this"

    def stage_of(self, rank: int) -> Stage:
        """Return the stage that a rank computes."""
        return self.stages[place_in_line(rank, self.ranks)]


def place_in_line(rank: int, ranks: int) -> int:
    """Return which stage a rank computes: rank 0, the engine's, has the last."""
    return (rank - 1) % ranks


def rank_at(place: int, ranks: int) -> int:
    """Return which rank computes a stage."""
    return (place + 1) % ranks


def pipeline_plan(files: ModelFiles, config: PretrainedConfig, ranks: int) -> PipelinePlan:
    """Make the plan for a model; ``config`` is that of transformers.

    Raises ``ModelError`` for a model that cannot be split, or has too few layers.
    """
    _refuse(config)
    shapes = layer_shapes(config)
    if len(shapes) < ranks:
        raise cannot_split(
            config, Parallelism.PIPELINE, f"has {len(shapes)} layers, and {ranks} ranks"
        )
    sizes, embedding, head, others = _sizes(files.checkpoint.shapes, len(shapes))
    if not all(sizes):
        raise cannot_split(
            config, Parallelism.PIPELINE, "has files that do not name its layers as usual"
        )
    # The same rows twice, even if files have them once.
    head = head or embedding
    parts = split_evenly([embedding + sizes[0], *sizes[1:-1], sizes[-1] + head], ranks)
    stages = tuple(
        Stage(part, is_first=place == 0, is_last=place == ranks - 1)
        for place, part in enumerate(parts)
    )
    whole = files.checkpoint.numbers
    shares = []
    for rank in range(ranks):
        stage = stages[place_in_line(rank, ranks)]
        numbers = others + sum(sizes[layer] for layer in stage.layers)
        numbers += embedding * stage.is_first + head * stage.is_last
        shares.append(
            RankShare(numbers / whole, _shapes_of_stage(shapes, stage), _describe_stage(stage))
        )
    return PipelinePlan(stages, tuple(shares))


def _refuse(config: PretrainedConfig) -> None:
    """Raise ModelError for a model whose layers cannot be in different processes."""
    text: Any = config.get_text_config()
    refuse_by_config(config, Parallelism.PIPELINE)
    if set(getattr(text, "base_model_pp_plan", None) or ()) != _PARTS:
        reason = "has no plan for it in transformers (base_model_pp_plan)"
        raise cannot_split(config, Parallelism.PIPELINE, reason)
    for setting, reason in _ACROSS.items():
        if getattr(text, setting, None):
            raise cannot_split(config, Parallelism.PIPELINE, f"{reason} ({setting})")


def _sizes(shapes: Mapping[str, tuple[int, ...]], layers: int) -> tuple[list[int], int, int, int]:
    """Return the numbers in each layer, in the embedding, in the head, and in all else."""
    found: Counter[str] = Counter()
    for name, shape in shapes.items():
        match = _NAME.match(name)
        # Layers after the last predict further tokens; transformers leaves them out.
        found[(match[1] or match[2]) if match else ""] += prod(shape)
    by_layer = [found[str(layer)] for layer in range(layers)]
    return by_layer, found["embed_tokens"], found["lm_head"], found[""]


def split_evenly(sizes: Sequence[int], parts: int) -> list[range]:
    """Return consecutive parts whose largest is as small as possible."""
    count = len(sizes)
    # The smallest possible largest part up to ``end``, and where its last part begins.
    best: list[tuple[float, int]] = [(0, 0)] + [(inf, 0)] * count
    starts = []
    for part in range(1, parts + 1):
        best = [
            min(
                ((max(best[cut][0], sum(sizes[cut:end])), cut) for cut in range(part - 1, end)),
                default=(inf, 0),
            )
            for end in range(count + 1)
        ]
        starts.append([cut for _, cut in best])
    cuts = [count]
    for of_part in reversed(starts):
        cuts.append(of_part[cuts[-1]])
    cuts.reverse()
    return [range(*pair) for pair in pairwise(cuts)]


def _shapes_of_stage(shapes: tuple[LayerShape, ...], stage: Stage) -> tuple[LayerShape, ...]:
    return tuple(shape if n in stage.layers else NO_KEYS for n, shape in enumerate(shapes))


def _describe_stage(stage: Stage) -> str:
    parts = [f"layers {stage.layers[0]} to {stage.layers[-1]}"]
    parts += ["embedding"] * stage.is_first + ["head"] * stage.is_last
    return ", ".join(parts)
