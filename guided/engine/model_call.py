"""One model call for all steps: reserve rows of the cache, pack, forward, and split the output."""

from __future__ import annotations

from collections.abc import Sequence

from guided.engine.meter import Meter
from guided.engine.runnable import Step
from guided.kv.reservation import SlotCopies
from guided.model.batch import Segment, SegmentOutput, StepBatch
from guided.model.runner import ModelRunner

__all__ = ["ModelCall"]


class ModelCall:
    """Packs the segments of all steps into one batch, and splits the output again."""

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner

    def reserve(self, step: Step, meter: Meter) -> list[Segment]:
        """Set rows aside for a step."""
        segments = []
        for segment in step.reserve():
            # A later segment of the same step may read what is copied here.
            self.copy([rows.copies for rows in segment.rows])
            segments.append(segment)
        meter.held(step.runnable.tables)
        return segments

    def forward(self, segments: Sequence[list[Segment]], meter: Meter) -> list[list[SegmentOutput]]:
        """The output for each segment, in the same lists."""
        meter.model_calls += 1
        # In one batch, as the weights are read once for all tokens of a call.
        every = [segment for of_step in segments for segment in of_step]
        split = iter(self.runner.forward(StepBatch(tuple(every))).split(every))
        return [[next(split) for _ in of_step] for of_step in segments]

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy rows of the cache, by group of layers."""
        # Most steps copy nothing, and a call to the device costs time even then.
        if any(len(of_group) for of_group in copies):
            self.runner.copy(copies)
