"""Begins the steps of one model call: certain tokens, and drafts for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from guided.decoding.draft_budget import CostCurve, DraftBudget
from guided.drafters.union import DrafterUnion
from guided.engine.request_isolation import RequestIsolation, is_request_error
from guided.engine.runnable import Runnable, Step
from guided.engine.step_deadline import StepDeadline, TakesLongError
from guided.errors import incident_of

__all__ = ["Drafting", "Plan"]

Plan: TypeAlias = Sequence[tuple[Runnable, int]]
"""How many of its pending tokens each running one computes."""

_SLOWNESS_WINDOW: Final = 16.0
"""Model calls over which their slowness is averaged."""
_OUTLIER: Final = 4.0
_MAX_UNITS: Final = 10_000
"""Units of work for constraints that all drafts of one step may take, each a microsecond or so."""
_MAX_UNITS_ALONE: Final = 2_000
"""The same for the draft of one sequence, where the drafts of all took more."""
_STEPS_WITHOUT_DRAFTS: Final = 16
"""Steps for which a sequence is not drafted for, where its draft alone took too long."""


class Drafting:
    """Begins the steps of a plan, and lets the drafter add to their trees."""

    def __init__(
        self,
        drafter: DrafterUnion | None,
        widest_draft: int,
        costs: CostCurve | None,
        step_deadline: StepDeadline | None = None,
    ) -> None:
        """``widest_draft`` is the most tokens drafted for one sequence in a step; 0: no drafts.

        ``costs`` are measured times of model calls; without them every draft pays that there is
        room for. ``step_deadline`` interrupts drafting that takes too long.
        """
        self._step_deadline = step_deadline or StepDeadline()
        self._drafter = drafter
        self._widest_draft = widest_draft
        self._costs = costs
        self.slowness = 1.0
        """How long recent calls take, as a multiple of the curve's times: other processes run, and
        long texts take longer than those of the measurement."""
        self._logged_drafters: set[str] = set()
        """The drafters whose fault has been logged; the fault may come again in every step."""

    def draft(
        self,
        plan: Plan,
        isolate: Callable[[str], RequestIsolation],
        pause: Callable[[Runnable, Callable[[], Step]], None],
    ) -> list[Step]:
        """Begin one step for each in the plan, except those whose request fails here.

        The drafter proposes once for all. If that fails or takes too long, each drafts alone, from
        the start, so only those go without drafts for which it fails again. ``isolate`` returns a
        context for the work of a request. ``pause`` is called with each runnable whose step takes
        too long to begin, and with a function that begins it.
        """
        steps = []
        for runnable, _ in plan:
            runnable.steps_without_drafts = max(0, runnable.steps_without_drafts - 1)
        work = self._count_work(plan)
        for runnable, count in plan:
            if runnable.is_running:  # unless another answer to its request failed
                budget = self._make_budget(runnable, work)
                with isolate(runnable.request_id):
                    try:
                        with self._step_deadline.within_step_time():
                            steps.append(runnable.begin_step(count, budget))
                    except TakesLongError:
                        # A budget is used up by a draft, so beginning a second time takes another.
                        spare = self._make_budget(runnable, work)
                        pause(runnable, partial(runnable.begin_step, count, spare))
        running = [(runnable, count) for runnable, count in plan if not runnable.is_paused]
        try:
            with self._step_deadline.within_units(_MAX_UNITS):
                self._propose(steps)
        except TakesLongError:
            return self._draft_alone(running, isolate)
        except BaseException as fault:
            if not is_request_error(fault):
                raise
            # Steps have reserved nothing yet, so they can be given up and begun again.
            return self._draft_alone(running, isolate)
        return steps

    def record_call(self, tokens: int, seconds: float) -> None:
        """Record how many seconds a model call over a number of tokens took."""
        if self._costs is not None:
            # An interrupted call must not count for all that follow.
            ratio = min(seconds / self._costs.seconds(tokens), _OUTLIER * self.slowness)
            self.slowness += (ratio - self.slowness) / _SLOWNESS_WINDOW

    def _draft_alone(self, plan: Plan, isolate: Callable[[str], RequestIsolation]) -> list[Step]:
        """Begin the steps of a plan, and draft for each sequence separately."""
        steps = []
        work = self._count_work(plan)
        for runnable, count in plan:
            if runnable.is_running:
                budget = self._make_budget(runnable, work)
                with isolate(runnable.request_id):
                    steps.append(self._begin_step_alone(runnable, count, budget))
        return steps

    def _begin_step_alone(self, runnable: Runnable, count: int, budget: DraftBudget) -> Step:
        """Begin a step with drafts, or without if a drafter fails: the answer needs none."""
        step = runnable.begin_step(count, budget)
        try:
            with self._step_deadline.within_units(_MAX_UNITS_ALONE):
                self._propose([step])
        except TakesLongError:
            runnable.steps_without_drafts = _STEPS_WITHOUT_DRAFTS
            return runnable.begin_step(count, DraftBudget(0))
        except BaseException as fault:
            if not is_request_error(fault):
                raise
            self._log_once(step, fault)
            return runnable.begin_step(count, DraftBudget(0))
        return step

    def _log_once(self, step: Step, fault: BaseException) -> None:
        """Log the failure of a drafter, but only its first."""
        # The builder knows which drafter was about to add to it.
        name = "" if step.draft is None else step.draft.builder.source
        if name not in self._logged_drafters:
            self._logged_drafters.add(name)
            incident_of(
                fault,
                f"drafter {name!r} failed on request {step.runnable.request_id!r}, which goes on "
                "without its drafts, as will others without a word",
            )

    def _count_work(self, plan: Plan) -> tuple[int, int, int]:
        """Return the certain tokens of a step, its sequences with drafts, and those without."""
        if not self._widest_draft:
            return 0, 0, 0
        # A prompt that does not fit in this step gets no token in it.
        whole = [runnable for runnable, count in plan if count == runnable.pending]
        drafting = sum([each.is_drafting and not each.steps_without_drafts for each in whole])
        return sum([count for _, count in plan]), drafting, len(whole) - drafting

    def _make_budget(self, runnable: Runnable, work: tuple[int, int, int]) -> DraftBudget:
        """Make the budget of one runnable in a step with this ``work`` (``_count_work``)."""
        if not self._widest_draft or runnable.steps_without_drafts:
            return DraftBudget(0)
        certain, drafting, undrafted = work
        requested = runnable.submission.request.max_drafted
        return DraftBudget(
            self._widest_draft if requested is None else min(requested, self._widest_draft),
            self._costs,
            certain=certain,
            sequences=drafting,
            undrafted=undrafted,
            slowness=self.slowness,
        )

    def _propose(self, steps: Sequence[Step]) -> None:
        """Let the drafter propose for all steps that want drafts, and take over their trees."""
        drafts = [step.draft for step in steps if step.draft is not None]
        # A call without drafts would cost a drafter with a model of its own a model call.
        if self._drafter is not None and drafts:
            self._drafter.propose(drafts)
        for step in steps:
            step.take_draft()
