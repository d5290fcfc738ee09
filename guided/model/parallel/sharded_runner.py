"""The runner of rank 0: what it does with the model, the other ranks do as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from guided.kv.reservation import SlotCopies
from guided.model.batch import StepBatch, StepOutput
from guided.model.parallel.messages import Call, Copy, Open
from guided.model.parallel.ranks import Ranks
from guided.model.runner import ModelRunner

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["ShardedRunner"]


class ShardedRunner(ModelRunner):
    """A model of which this process holds a share, and ``ranks`` the others.

    ``module`` is this rank's (``load_share``). Raises ``ModelError`` where another rank is lost,
    while the model is tried or in a call.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        ranks: Ranks,
        *,
        vocabulary_size: int,
        quantise_cache: bool = False,
    ) -> None:
        self._ranks = ranks
        # Trying a model calls it, which all ranks do at once.
        with ranks.together():
            super().__init__(module, vocabulary_size=vocabulary_size, quantise_cache=quantise_cache)

    @property
    def description(self) -> str:
        """What computes the calls, so far as their time depends on it."""
        return f"{super().description}, {self._ranks.count} ranks"

    def open_storages(self, num_slots: Sequence[int]) -> None:
        """Take the memory for the slots of each group, on every rank."""
        with self._ranks.together(Open(tuple(num_slots))):
            super().open_storages(num_slots)

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy rows between slots, by group, on every rank."""
        with self._ranks.together(Copy.of(copies)):
            super().copy(copies)

    def forward(self, batch: StepBatch) -> StepOutput:
        """The logits of a batch, to which every rank adds its share."""
        with self._ranks.together(Call.of(batch.segments)):
            return super().forward(batch)

    def close(self) -> None:
        """End the other ranks."""
        self._ranks.close()
