"""The interface between the training loop and the kind of drafter that is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import torch
from torch import nn

from guided.train.accuracy import Accuracy
from guided.train.examples import Example

__all__ = ["Batch", "Lesson", "loss_by_depth", "weighted_loss"]

Batch: TypeAlias = dict[str, torch.Tensor]
"""The arguments of a module's ``forward``."""

_DECAY: Final = 0.8
_MEASURED_AT_ONCE: Final = 8


class Lesson(ABC):
    """A kind of drafter: what is trained, on what, and how it is saved.

    The target computes what a batch needs while the batch is put together, so the module has only
    the parameters that are trained, however they are spread over processes.
    """

    __slots__ = ()

    depth_name: ClassVar[str]
    """The name of a depth in reports of accuracy."""

    @abstractmethod
    def make_module(self) -> nn.Module:
        """Make a module to train; its ``forward`` takes a batch and returns ``{"loss": ...}``."""

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Make the module's batch of some examples."""
        return self._batch(examples, every=False)

    @torch.no_grad()
    def measure(self, module: nn.Module, examples: Sequence[Example]) -> Accuracy:
        """Measure how often the module is right on examples."""
        accuracy = Accuracy()
        for start in range(0, len(examples), _MEASURED_AT_ONCE):
            batch = self._batch(examples[start : start + _MEASURED_AT_ONCE], every=True)
            for depth, (logits, right) in enumerate(self._judged(module, batch), 1):
                accuracy.add(depth, logits, right)
        return accuracy

    @abstractmethod
    def save(self, module: nn.Module, folder: Path, about: str) -> None:
        """Write the trained part in its published layout, with a card that includes ``about``."""

    @abstractmethod
    def told(self) -> Mapping[str, Any]:
        """The settings that a checkpoint depends on."""

    @abstractmethod
    def _batch(self, examples: Sequence[Example], *, every: bool) -> Batch:
        """Make a batch of drawn places, or of ``every`` one after which the model chose."""

    @abstractmethod
    def _judged(
        self, module: nn.Module, batch: Batch
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the logits of each depth, and the right tokens, where the model chose those."""


def loss_by_depth(losses: Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the sum of the losses, which count 1, 0.8, 0.64, ..."""
    return {"loss": torch.stack([_DECAY**depth * loss for depth, loss in enumerate(losses)]).sum()}


def weighted_loss(logits: torch.Tensor, right: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of ``[places, vocabulary]`` logits, each with its weight."""
    each = nn.functional.cross_entropy(logits.float(), right, reduction="none")
    return (each * weights).sum() / weights.sum().clamp(min=1.0)
