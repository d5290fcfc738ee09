"""Settles steps: at once where that is short, else aside, in slices before later steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from guided.engine.model_call import ModelCall
from guided.engine.paused_answers import Paused, PausedAnswers
from guided.engine.runnable import Runnable, Settled, Step
from guided.engine.scheduler import Scheduler
from guided.engine.sliced_work import Kernels
from guided.engine.step_deadline import StepDeadline, TakesLongError
from guided.model.batch import SegmentOutput

__all__ = ["Settling"]


class Settling:
    """Lets runnables verify and commit their steps, and does the engine's part of it.

    ``resumed`` is called with each that settled after it had paused.
    """

    def __init__(
        self,
        model: ModelCall,
        scheduler: Scheduler,
        aside: PausedAnswers,
        step_deadline: StepDeadline,
        kernels: Kernels,
        resumed: Callable[[Runnable], None],
    ) -> None:
        self._model = model
        self._scheduler = scheduler
        self._aside = aside
        self._step_deadline = step_deadline
        self._kernels = kernels
        self._resumed = resumed

    def settle(self, step: Step, outputs: Sequence[SegmentOutput]) -> None:
        """Let one runnable verify and commit its step; if that takes long, it pauses."""
        runnable = step.runnable
        if not runnable.judges_apart:
            self._settle_whole(runnable, partial(runnable.settle, step, outputs, None))
            return
        try:
            with self._step_deadline.within_step_time():
                judged = runnable.judge(step, outputs)
        except TakesLongError:
            judge = partial(runnable.judge, step, outputs)
            resume = partial(self._resume_judged, step, outputs)
            self._aside.put(Paused(runnable, judge, resume, self._kernels))
            return
        self._carry_out(runnable, runnable.settle(step, outputs, judged))

    def begin_aside(self, runnable: Runnable, begin: Callable[[], Step]) -> None:
        """Do the long work of beginning a step aside, before the step is begun again."""
        self._aside.put(Paused(runnable, begin, _begun, self._kernels))

    def _settle_whole(self, runnable: Runnable, settle: Callable[[], Settled]) -> None:
        """Settle a step whose judgement cannot come before its changes."""
        if runnable.submission.request.constraint is None:
            self._carry_out(runnable, settle())
            return
        resume = partial(self._resume, runnable)
        paused = Paused(runnable, settle, resume, self._kernels, is_repeatable=False)
        # Do the first slice at once, which is enough for most.
        if not self._step_deadline.is_over and paused.work.run_slice():
            self._carry_out(runnable, paused.work.result())
        else:
            self._aside.put(paused)

    def _carry_out(self, runnable: Runnable, settled: Settled) -> None:
        # Rows move first: committed blocks are in the prefix index, where others may find them.
        self._model.copy(settled.copies)
        self._scheduler.fork(runnable, settled.forks)
        for each in (runnable, *settled.forks):
            if each.is_finished:
                self._scheduler.leave(each)

    def _resume_judged(self, step: Step, outputs: Sequence[SegmentOutput], judged: object) -> None:
        self._resume(step.runnable, step.runnable.settle(step, outputs, judged))

    def _resume(self, runnable: Runnable, settled: Settled) -> None:
        self._carry_out(runnable, settled)
        self._resumed(runnable)


def _begun(_: Step) -> None:
    """Drop the step: it is begun again with those of the others."""
