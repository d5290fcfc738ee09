"""The interface between the training loop and the kind of drafter that is trained."""

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
    """A kind of drafter: what is trained, on what, and how it is saved.

    The target computes what a batch needs while the batch is put together, so the module has only
    the parameters that are trained, however they are spread over processes.
    """

    @property
    def depth_name(self) -> str:
        """The name of a depth in reports of accuracy."""
        ...

    def make_module(self) -> nn.Module:
        """Make a module to train; its ``forward`` takes a batch and returns ``{"loss": ...}``."""
        ...

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Make the module's batch of some examples."""
        ...

    def measure(self, module: nn.Module, examples: Sequence[Example]) -> Accuracy:
        """Measure how often the module is right on examples."""
        ...

    def save(self, module: nn.Module, folder: Path, about: str) -> None:
        """Write the trained part in its published layout, with a card that includes ``about``."""
        ...

    def told(self) -> Mapping[str, Any]:
        """The settings that a checkpoint depends on."""
        ...


def weighted_loss(logits: torch.Tensor, right: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of ``[places, vocabulary]`` logits, each with its weight."""
    each = nn.functional.cross_entropy(logits.float(), right, reduction="none")
    return (each * weights).sum() / weights.sum().clamp(min=1.0)
