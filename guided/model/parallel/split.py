"""How a model is split over processes, and over how many."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.model.config_refusals import quantisation
from guided.model.layer_configs import is_recurrent

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["Parallelism", "RankShare", "Split", "cannot_split", "refuse_by_config"]


class Parallelism(StrEnum):
    """What is split; named like the settings."""

    TENSOR = "tensor_parallel"
    """The matrices of every layer."""
    PIPELINE = "pipeline_parallel"
    """The layers."""


@dataclass(frozen=True, slots=True)
class Split:
    """What is split, and over how many processes; one process has a whole model."""

    parallelism: Parallelism = Parallelism.TENSOR
    ranks: int = 1

    @property
    def stages(self) -> int:
        """The number of processes that compute one after the other."""
        return self.ranks if self.parallelism is Parallelism.PIPELINE else 1


@dataclass(frozen=True, slots=True)
class RankShare:
    """What one process holds of a model."""

    weights: float
    """Its part of the numbers in the files, from 0 to 1."""
    layers: tuple[LayerShape, ...]
    """What it keeps of a token, by layer of the whole model."""
    holds: str


def refuse_by_config(config: PretrainedConfig, parallelism: Parallelism) -> None:
    """Raise ``ModelError`` for a model that cannot be split either way."""
    if is_recurrent(config):
        raise cannot_split(config, parallelism, "has layers that keep a state from token to token")
    if (method := quantisation(config)) is not None:
        raise cannot_split(config, parallelism, f"has weights quantised with {method!r}")


def cannot_split(config: PretrainedConfig, parallelism: Parallelism, reason: str) -> ModelError:
    """Return the error for a model that cannot be split: "it has ..."."""
    name = ", ".join(config.architectures or []) or config.model_type
    return ModelError(
        f"{name} cannot be split over ranks: it {reason}",
        hint=f"leave {parallelism} out, or choose a model such as Llama, Qwen, Gemma 3 or Mixtral",
    )
