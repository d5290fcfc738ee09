"""What the training loop asks of the kind of drafter that is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from torch import nn

from guided.train.accuracy import Accuracy
from guided.train.examples import Example

__all__ = ["Batch", "Lesson", "weighted_loss"]

Batch: TypeAlias = dict[str, torch.Tensor]
"""The arguments of a module's ``forward``."""


class Lesson(Protocol):
    """A kind of drafter: what is trained, on what, and how it is kept.

    The target is asked for what a batch needs while the batch is put together, so the module has
    the numbers that are trained and no others, however they are spread over processes.
    """

    @property
    def depth_name(self) -> str:
        """What a depth is called where accuracies are told."""
        ...

    def make_module(self) -> nn.Module:
        """A module to be trained; its ``forward`` takes a batch and returns ``{"loss": ...}``."""
        ...

    def collate(self, examples: Sequence[Example]) -> Batch:
        """What the module needs of some examples."""
        ...

    def measure(self, module: nn.Module, examples: Sequence[Example]) -> Accuracy:
        """How often the module is right on examples."""
        ...

    def save(self, module: nn.Module, folder: Path, about: str) -> None:
        """Write what was trained in its published layout, with a card that tells ``about`` it."""
        ...

    def told(self) -> Mapping[str, Any]:
        """The settings that a checkpoint depends on."""
        ...


def weighted_loss(logits: torch.Tensor, right: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of ``[places, vocabulary]`` logits, each with its weight."""
    each = nn.functional.cross_entropy(logits.float(), right, reduction="none")
    return (each * weights).sum() / weights.sum().clamp(min=1.0)
