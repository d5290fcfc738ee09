"""One model call for all steps: reserve cache slots, pack, forward, and split the output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from guided.decoding.device_draw import DeviceDraw
from guided.engine.counters import EngineCounters
from guided.engine.request_isolation import is_request_error
from guided.engine.runnable import Step
from guided.engine.step_deadline import StepDeadline, TakesLongError
from guided.kv.reservation import SlotCopies
from guided.model.batch import Segment, SegmentOutput, StepBatch
from guided.model.runner import ModelRunner

__all__ = ["ModelCall"]


class ModelCall:
    """Packs the segments of all steps into one batch, and splits the output again."""

    def __init__(self, runner: ModelRunner, step_deadline: StepDeadline) -> None:
        self.runner = runner
        self._step_deadline = step_deadline

    def reserve(self, step: Step, counters: EngineCounters) -> list[Segment]:
        """Reserve the cache slots of a step, make the copies that this needs, and count the slots.

        Raises OutOfMemoryError; the caller then releases what was reserved before.
        """
        segments = []
        for segment in step.reserve():
            # Copies have to be made before the model call writes new slots.
            self.copy([reservation.copies for reservation in segment.reservations])
            segments.append(segment)
        counters.count_held_slots(step.runnable.tables)
        return segments

    def forward(
        self, steps: Sequence[Step], segments: Sequence[list[Segment]], counters: EngineCounters
    ) -> list[list[SegmentOutput]]:
        """Compute the output of each segment, in lists like those of the segments."""
        counters.model_calls += 1
        # In one batch, because the weights are read once for all tokens of a call.
        every = [segment for of_step in segments for segment in of_step]
        batch = StepBatch(tuple(every), partial(self._device_draws, steps))
        split = iter(self.runner.forward(batch).split(every))
        return [[next(split) for _ in of_step] for of_step in segments]

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy cache slots, by group of layers."""
        # Most steps copy nothing, and a call to the device costs time even then.
        if any(len(of_group) for of_group in copies):
            self.runner.copy(copies)

    def _device_draws(self, steps: Sequence[Step]) -> list[DeviceDraw | None]:
        """Return what to draw from each row of logits."""
        self._step_deadline.begin_step()
        draws: list[DeviceDraw | None] = []
        for step in steps:
            for piece in step.pieces:
                try:
                    with self._step_deadline.within_step_time():
                        draws += step.runnable.device_draws(piece)
                # Whatever prevents a mask also prevents the choice: it is raised again there, where
                # it counts as the request's own error.
                except BaseException as fault:
                    if not isinstance(fault, TakesLongError) and not is_request_error(fault):
                        raise
                    draws += [None] * len(piece.nodes_needing_logits)
        return draws
