"""One model call for all steps: reserve rows of the cache, pack, forward, and split the output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from guided.decoding.draw import Draw
from guided.engine.isolation import is_of_request
from guided.engine.meter import Meter
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

    def reserve(self, step: Step, meter: Meter) -> list[Segment]:
        """Reserve the rows of a step."""
        segments = []
        for segment in step.reserve():
            # A later segment of the same step may read what is copied here.
            self.copy([rows.copies for rows in segment.rows])
            segments.append(segment)
        meter.held(step.runnable.tables)
        return segments

    def forward(
        self, steps: Sequence[Step], segments: Sequence[list[Segment]], meter: Meter
    ) -> list[list[SegmentOutput]]:
        """Compute the output of each segment, in lists like those of the segments."""
        meter.model_calls += 1
        # In one batch, because the weights are read once for all tokens of a call.
        every = [segment for of_step in segments for segment in of_step]
        batch = StepBatch(tuple(every), partial(self._draws, steps))
        split = iter(self.runner.forward(batch).split(every))
        return [[next(split) for _ in of_step] for of_step in segments]

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy rows of the cache, by group of layers."""
        # Most steps copy nothing, and a call to the device costs time even then.
        if any(len(of_group) for of_group in copies):
            self.runner.copy(copies)

    def _draws(self, steps: Sequence[Step]) -> list[Draw | None]:
        """Return what to draw from each row of logits."""
        self._step_deadline.begin_step()
        draws: list[Draw | None] = []
        for step in steps:
            for piece in step.pieces:
                try:
                    with self._step_deadline.within_step_time():
                        draws += step.runnable.to_draw(piece)
                # Whatever prevents a mask also prevents the choice: it is raised again there, where
                # it counts as the request's own error.
                except BaseException as fault:
                    if not isinstance(fault, TakesLongError) and not is_of_request(fault):
                        raise
                    draws += [None] * len(piece.deciding)
        return draws
