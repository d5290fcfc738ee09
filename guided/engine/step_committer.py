"""Verifies and commits steps: at once if that is short, else in slices before later steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from guided.engine.model_call import ModelCall
from guided.engine.paused_answers import PausedAnswer, PausedAnswers
from guided.engine.runnable import Runnable, Step, StepEffects
from guided.engine.scheduler import Scheduler
from guided.engine.sliced_work import RunningKernels
from guided.engine.step_deadline import StepDeadline, TakesLongError
from guided.model.batch import SegmentOutput

__all__ = ["StepCommitter"]


class StepCommitter:
    """Lets runnables verify and commit their steps, and applies the effects on the engine.

    ``on_resumed`` is called with each runnable that committed its step after a pause.
    """

    def __init__(
        self,
        model: ModelCall,
        scheduler: Scheduler,
        paused: PausedAnswers,
        step_deadline: StepDeadline,
        kernels: RunningKernels,
        on_resumed: Callable[[Runnable], None],
    ) -> None:
        self._model = model
        self._scheduler = scheduler
        self._paused = paused
        self._step_deadline = step_deadline
        self._kernels = kernels
        self._on_resumed = on_resumed

    def commit(self, step: Step, outputs: Sequence[SegmentOutput]) -> None:
        """Let one runnable verify and commit its step; if that takes long, it pauses."""
        runnable = step.runnable
        if not runnable.verifies_first:
            self._commit_whole(runnable, partial(runnable.apply_output, step, outputs, None))
            return
        try:
            with self._step_deadline.within_step_time():
                verified = runnable.verify(step, outputs)
        except TakesLongError:
            verify = partial(runnable.verify, step, outputs)
            resume = partial(self._resume_verified, step, outputs)
            self._paused.add(PausedAnswer(runnable, verify, resume, self._kernels))
            return
        self._apply_effects(runnable, runnable.apply_output(step, outputs, verified))

    def begin_paused(self, runnable: Runnable, begin: Callable[[], Step]) -> None:
        """Pause a runnable, and do the long work of beginning its step in slices.

        The result is dropped; the runnable's next step then begins quickly, from what is cached.
        """
        self._paused.add(PausedAnswer(runnable, begin, _drop_step, self._kernels))

    def _commit_whole(self, runnable: Runnable, apply_output: Callable[[], StepEffects]) -> None:
        """Commit a step that cannot be verified before anything changes: one piece of work."""
        if runnable.submission.request.constraint is None:
            self._apply_effects(runnable, apply_output())
            return
        resume = partial(self._resume, runnable)
        paused = PausedAnswer(runnable, apply_output, resume, self._kernels, is_repeatable=False)
        # Do the first slice at once, which is enough for most.
        if not self._step_deadline.is_over and paused.work.run_slice():
            self._apply_effects(runnable, paused.work.result())
        else:
            self._paused.add(paused)

    def _apply_effects(self, runnable: Runnable, effects: StepEffects) -> None:
        """Make the copies of a committed step, start its forks, and stop what is finished."""
        # Copies come first: committed blocks are in the prefix index, where others may find them.
        self._model.copy(effects.copies)
        self._scheduler.fork(runnable, effects.forks)
        for each in (runnable, *effects.forks):
            if each.is_finished:
                self._scheduler.stop(each)

    def _resume_verified(
        self, step: Step, outputs: Sequence[SegmentOutput], verified: object
    ) -> None:
        self._resume(step.runnable, step.runnable.apply_output(step, outputs, verified))

    def _resume(self, runnable: Runnable, effects: StepEffects) -> None:
        self._apply_effects(runnable, effects)
        self._on_resumed(runnable)


def _drop_step(_: Step) -> None:
    """Do nothing with a step: it is begun again with those of the others."""
