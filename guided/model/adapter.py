"""LoRA adapters as peft writes them: low-rank additions to the matrices of a model.

A folder has ``adapter_config.json`` and ``adapter_model.safetensors``. For a matrix ``W`` that the
adapter names, ``W x`` becomes ``W x + scale · B (A x)``, with ``A`` of ``[rank, in]`` and ``B`` of
``[out, rank]`` (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021)::

    base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight
    └ by peft ─────┘ └ the matrix, as the model names it ─┘ └ A or B
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open

from guided.errors import ModelError

__all__ = ["Adapter", "LowRank", "check_shape", "no_matrix", "read_adapter"]

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_TENSOR: Final = re.compile(r"base_model\.model\.(?P<matrix>.+)\.lora_(?P<part>[AB])\.weight")
_REFUSED: Final = {
    "use_dora": "DoRA",
    "fan_in_fan_out": "matrices that are stored the other way round",
    "modules_to_save": "modules that replace those of the model",
    "trainable_token_indices": "embeddings of single tokens",
    "layer_replication": "layers that are repeated",
    "target_parameters": "additions to weights that are no matrix by themselves",
    "alora_invocation_tokens": "activation by tokens of the text",
}
_UNUSED: Final = frozenset(
    {
        *("alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "corda_config"),
        *("eva_config", "exclude_modules", "inference_mode", "init_lora_weights", "layers_pattern"),
        *("layers_to_transform", "loftq_config", "lora_alpha", "lora_dropout", "lora_ga_config"),
        *("megatron_config", "megatron_core", "peft_type", "peft_version", "qalora_group_size"),
        *("r", "rank_pattern", "revision", "runtime_config", "target_modules", "task_type"),
        "use_rslora",
    }
)
"""Settings that are read elsewhere here, or only matter for training."""
_PLAIN_STARTS: Final = (None, True, False, "gaussian", "eva", "orthogonal")
"""Initialisations for training that leave the matrices of the model unchanged."""
_PADDED: Final = 32
"""Ranks are padded to a multiple of this if they are kept as bf16."""


@dataclass(frozen=True, slots=True, eq=False)
class LowRank:
    """What an adapter adds to one matrix."""

    down: torch.Tensor
    """``A``, float32 ``[rank, in]``."""
    up: torch.Tensor
    """``B``, float32 ``[out, rank]``."""
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """A LoRA adapter of one model."""

    name: str
    """The name that requests use."""
    matrices: Mapping[str, LowRank]
    """By name of the matrix in the model, without ``.weight``."""

    @property
    def nbytes(self) -> int:
        """The most bytes that its numbers take, as float32 or bf16."""
        total = 0
        for each in self.matrices.values():
            rank, inputs = each.down.shape
            width = max(4 * rank, 2 * _PADDED * math.ceil(rank / _PADDED))
            total += width * (inputs + len(each.up))
        return total


def read_adapter(name: str, folder: str | Path) -> Adapter:
    """Read the adapter in a folder that peft has written.

    Raises ModelError if there is none, if it is incomplete, or if it has something unsupported:
    methods other than LoRA, DoRA, biases, and modules besides matrices.
    """
    folder = Path(folder)
    config = _config(folder)
    parts: dict[str, dict[str, torch.Tensor]] = {}
    try:
        with safe_open(folder / _WEIGHTS, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 - it is no mapping
                found = _TENSOR.fullmatch(key)
                if found is None:
                    raise _not_supported(folder, f"it has a tensor {key}")
                # A copy: the file belongs to the caller, who may continue training.
                tensor = file.get_tensor(key).to(torch.float32, copy=True)
                parts.setdefault(found["matrix"], {})[found["part"]] = tensor
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"the adapter in {folder} has no weights that can be read: {error}",
            hint=f"name a folder with {_CONFIG} and {_WEIGHTS}, as peft saves them",
        ) from error
    if not parts:
        raise ModelError(f"the adapter in {folder} has no tensors", hint="save it again")
    return Adapter(
        name, {matrix: _low_rank(folder, config, matrix, two) for matrix, two in parts.items()}
    )


def check_shape(adapter: Adapter, name: str, low_rank: LowRank, shape: tuple[int, ...]) -> None:
    """Raise ModelError unless an addition fits a matrix of ``[out, in]``."""
    its = len(low_rank.up), low_rank.down.shape[1]
    if its != shape:
        raise ModelError(
            f"the adapter {adapter.name!r} adds to a {name} of {list(its)}, but that of the model "
            f"is of {list(shape)}",
            hint="serve the model that the adapter was trained on",
        )


def no_matrix(adapter: Adapter, name: str) -> ModelError:
    """Return the error for an adapter that adds to something other than a matrix of a layer."""
    return ModelError(
        f"the adapter {adapter.name!r} adds to {name}, which is no matrix of a layer of the model",
        hint="serve the model that the adapter was trained on, or merge it into that model",
    )


def _config(folder: Path) -> dict[str, Any]:
    """Read the config of an adapter; ModelError for anything but plain LoRA.

    A setting that is not known to have no effect is refused if it is set, because ignoring it could
    change answers.
    """
    try:
        config = json.loads((folder / _CONFIG).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the adapter in {folder} has no config that can be read: {error}",
            hint=f"name a folder with {_CONFIG} and {_WEIGHTS}, as peft saves them",
        ) from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else config
        raise _not_supported(folder, f"its peft_type is {kind!r}, not 'LORA'")
    for setting, value in config.items():
        if value and setting not in _UNUSED:
            what = _REFUSED.get(setting, "a setting that is not known here")
            raise _not_supported(folder, f"it has {what} ({setting})")
    start = config.get("init_lora_weights")
    if start not in _PLAIN_STARTS:
        raise ModelError(
            f"the adapter in {folder} is not supported: its training began by changing the model "
            f"(init_lora_weights is {start!r})",
            hint="save it with path_initial_model_for_weight_conversion, or merge it",
        )
    if config.get("bias", "none") != "none":
        raise _not_supported(folder, f"it changes biases (bias is {config['bias']!r})")
    return config


def _low_rank(
    folder: Path, config: Mapping[str, Any], matrix: str, two: Mapping[str, torch.Tensor]
) -> LowRank:
    """Read and check the two halves of one matrix, with the scale of their product.

    ``two`` has ``A`` ``[rank, inputs]`` and ``B`` ``[outputs, rank]``.
    """
    if two.keys() != {"A", "B"}:
        raise ModelError(
            f"the adapter in {folder} has lora_{min(two)} of {matrix} and not the other half",
            hint="save it again",
        )
    down, up = two["A"], two["B"]
    if down.ndim != 2 or up.ndim != 2 or down.shape[0] != up.shape[1]:
        raise _not_supported(
            folder, f"the halves of {matrix} are of {list(down.shape)} and {list(up.shape)}"
        )
    if not (down.isfinite().all() and up.isfinite().all()):
        raise ModelError(f"the adapter in {folder} has numbers of {matrix} that are not finite")
    rank = len(down)
    try:
        alpha = _of_matrix(config.get("alpha_pattern"), matrix, config.get("lora_alpha", 8))
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    except (TypeError, ValueError, AttributeError, ZeroDivisionError, re.error) as error:
        raise _not_supported(folder, f"there is no scale of {matrix}: {error}") from error
    if not math.isfinite(scale):
        raise _not_supported(folder, f"the scale of {matrix} is {scale}")
    return LowRank(down, up, scale)


def _of_matrix(patterns: Mapping[str, float] | None, matrix: str, otherwise: float) -> float:
    """Return a setting of one matrix: patterns are regexes that match the end of its name."""
    for pattern, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", matrix):
            return float(value)
    return float(otherwise)


def _not_supported(folder: Path, reason: str) -> ModelError:
    return ModelError(
        f"the adapter in {folder} is not supported: {reason}",
        hint="train it as plain LoRA of the model's matrices, or merge it into the model",
    )
