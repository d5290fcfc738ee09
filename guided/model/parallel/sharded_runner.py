"""The runner of rank 0: the other ranks repeat what it does with the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.kv.reservation import SlotCopies
from guided.model.batch import StepBatch, StepOutput
from guided.model.parallel.messages import Call, Copy, Loaded, Open
from guided.model.parallel.micro_batches import join_outputs, micro_batches
from guided.model.parallel.ranks import Ranks
from guided.model.parallel.shares import Share
from guided.model.runner import ModelRunner

__all__ = ["ShardedRunner"]


class ShardedRunner(ModelRunner):
    """A model of which this process holds a share, and ``ranks`` the others.

    ``share`` is this rank's (``load_share``), ``on_loss`` that of ``Ranks.wait_until_loaded``.
    Raises ``ModelError`` if another rank is lost, while the model is tried or in a call.
    """

    def __init__(
        self,
        share: Share,
        ranks: Ranks,
        *,
        vocabulary_size: int,
        quantise_cache: bool = False,
        on_loss: Callable[[ModelError], None] | None = None,
    ) -> None:
        self._ranks = ranks
        # Trying a model calls it, which all ranks do at once.
        with ranks.together():
            super().__init__(
                share.module,
                vocabulary_size=vocabulary_size,
                quantise_cache=quantise_cache,
                stage=share.stage,
            )
        here = Loaded(share.nbytes, self.shape.layers, self.shape.windows)
        self.held: tuple[Loaded, ...] = (here, *ranks.wait_until_loaded(on_loss))
        """By rank."""
        with ranks.together():
            if any(rank.windows != here.windows for rank in self.held):
                raise ModelError(
                    f"{type(share.module).__name__} has sliding windows that its config does not "
                    "tell of, so its layers cannot be in different processes",
                    hint=f"leave {ranks.split.parallelism} out",
                )

    @property
    def layers_by_rank(self) -> tuple[tuple[LayerShape, ...], ...]:
        """What each process keeps of a token, by layer."""
        return tuple(rank.layers for rank in self.held)

    @property
    def description(self) -> str:
        """What computes the calls, as far as their time depends on it."""
        split = self._ranks.split
        return f"{super().description}, {split.parallelism} {split.ranks}"

    def open_storages(self, num_slots: Sequence[int]) -> None:
        """Allocate the memory for the slots of each group, on every rank."""
        with self._ranks.together(Open(tuple(num_slots))):
            super().open_storages(num_slots)

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy rows between slots, by group, on every rank."""
        with self._ranks.together(Copy.of(copies)):
            super().copy(copies)

    def forward(self, batch: StepBatch) -> StepOutput:
        """Return the logits of a batch, for which every rank does its share."""
        with self._ranks.together(Call.of(batch.segments)):
            parts = micro_batches(batch, self._ranks.split.stages)
            output = join_outputs([super(ShardedRunner, self).forward(part) for part in parts])
            self.wait()  # so that an error of a device is raised for the right call
            return output

    def close(self) -> None:
        """End the other ranks."""
        self._ranks.close()
