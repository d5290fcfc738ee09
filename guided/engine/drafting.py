"""Begins the steps of one model call: certain tokens, and drafts for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from guided.decoding.draft_budget import CostCurve, DraftBudget
from guided.drafters.union import DrafterUnion
from guided.engine.isolation import Isolation, is_of_request
from guided.engine.runnable import Runnable, Step
from guided.engine.step_deadline import StepDeadline, TakesLongError
from guided.errors import incident_of

__all__ = ["Drafting", "Plan"]

Plan: TypeAlias = Sequence[tuple[Runnable, int]]
"""How many of its pending tokens each running one computes."""

_CALLS: Final = 16.0
"""Model calls over which their slowness is averaged."""
_OUTLIER: Final = 4.0
_MOST_WORK: Final = 10_000
"""Units of work for constraints that all drafts of one step may take, each a microsecond or so."""
_WORK_ALONE: Final = 2_000
"""The same for the draft of one sequence, where the drafts of all took more."""
_STEPS_UNDRAFTED: Final = 16


class Drafting:
    """Begins the steps of a plan, and lets the drafter add to their trees."""

    def __init__(
        self,
        drafter: DrafterUnion | None,
        widest_draft: int,
        costs: CostCurve | None,
        step_deadline: StepDeadline | None = None,
    ) -> None:
        """``step_deadline`` breaks off drafting that takes too long."""
        self._step_deadline = step_deadline or StepDeadline()
        self._drafter = drafter
        self._widest_draft = widest_draft
        self._costs = costs
        self.slowness = 1.0
        """How long recent calls take, as a multiple of the curve's times: other processes run, and
        long texts take longer than those of the measurement."""
        self._known_to_fail: set[str] = set()
        """The drafters whose fault has been logged; the fault may come again in every step."""

    def draft(
        self,
        plan: Plan,
        isolated: Callable[[str], Isolation],
        pause: Callable[[Runnable, Callable[[], Step]], None],
    ) -> list[Step]:
        """Begin one step for each in the plan, except those whose request fails here.

        The drafter proposes once for all. If that fails or takes too long, each drafts alone, from
        the start, so only those go without drafts for which it fails again. ``pause`` is called
        with each runnable whose step takes too long to begin, and with what begins it.
        """
        steps = []
        for runnable, _ in plan:
            runnable.steps_undrafted = max(0, runnable.steps_undrafted - 1)
        shares = self._shares(plan)
        for runnable, count in plan:
            if runnable.is_running:  # unless another answer to its request failed
                budget = self._budget(runnable, shares)
                with isolated(runnable.request_id):
                    try:
                        with self._step_deadline.within_step_time():
                            steps.append(runnable.begin_step(count, budget))
                    except TakesLongError:
                        # A budget is used up by a draft, so beginning a second time takes another.
                        spare = self._budget(runnable, shares)
                        pause(runnable, partial(runnable.begin_step, count, spare))
        begun = [(runnable, count) for runnable, count in plan if not runnable.is_paused]
        try:
            with self._step_deadline.within_units(_MOST_WORK):
                self._propose(steps)
        except TakesLongError:
            return self._draft_alone(begun, isolated)
        except BaseException as fault:
            if not is_of_request(fault):
                raise
            # Steps have reserved nothing yet, so they can be given up and begun again.
            return self._draft_alone(begun, isolated)
        return steps

    def note_call(self, tokens: int, seconds: float) -> None:
        """Record how many seconds a model call over a number of tokens took."""
        if self._costs is not None:
            # An interrupted call must not count for all that follow.
            ratio = min(seconds / self._costs.seconds(tokens), _OUTLIER * self.slowness)
            self.slowness += (ratio - self.slowness) / _CALLS

    def _draft_alone(self, plan: Plan, isolated: Callable[[str], Isolation]) -> list[Step]:
        steps = []
        shares = self._shares(plan)
        for runnable, count in plan:
            if runnable.is_running:
                budget = self._budget(runnable, shares)
                with isolated(runnable.request_id):
                    steps.append(self._begin_alone(runnable, count, budget))
        return steps

    def _begin_alone(self, runnable: Runnable, count: int, budget: DraftBudget) -> Step:
        """Begin a step with drafts, or without if a drafter fails: the answer needs none."""
        step = runnable.begin_step(count, budget)
        try:
            with self._step_deadline.within_units(_WORK_ALONE):
                self._propose([step])
        except TakesLongError:
            runnable.steps_undrafted = _STEPS_UNDRAFTED
            return runnable.begin_step(count, DraftBudget(0))
        except BaseException as fault:
            if not is_of_request(fault):
                raise
            self._log_once(step, fault)
            return runnable.begin_step(count, DraftBudget(0))
        return step

    def _log_once(self, step: Step, fault: BaseException) -> None:
        """Log the failure of a drafter, but only its first."""
        # The builder knows which drafter was about to add to it.
        name = "" if step.draft is None else step.draft.builder.source
        if name not in self._known_to_fail:
            self._known_to_fail.add(name)
            incident_of(
                fault,
                f"drafter {name!r} failed on request {step.runnable.request_id!r}, which goes on "
                "without its drafts, as will others without a word",
            )

    def _shares(self, plan: Plan) -> tuple[int, int, int]:
        """Count what a step computes: certain tokens, the sequences that may draft, and those that
        continue without drafts.
        """
        if not self._widest_draft:
            return 0, 0, 0
        # A prompt that does not fit in this step gets no token in it.
        whole = [runnable for runnable, count in plan if count == runnable.pending]
        drafting = sum([each.is_drafting and not each.steps_undrafted for each in whole])
        return sum([count for _, count in plan]), drafting, len(whole) - drafting

    def _budget(self, runnable: Runnable, shares: tuple[int, int, int]) -> DraftBudget:
        """Make the budget of one runnable in a step with these ``_shares``."""
        if not self._widest_draft or runnable.steps_undrafted:
            return DraftBudget(0)
        certain, drafting, undrafted = shares
        asked = runnable.submission.request.max_drafted
        return DraftBudget(
            self._widest_draft if asked is None else min(asked, self._widest_draft),
            self._costs,
            certain=certain,
            sequences=drafting,
            undrafted=undrafted,
            slowness=self.slowness,
        )

    def _propose(self, steps: Sequence[Step]) -> None:
        drafts = [step.draft for step in steps if step.draft is not None]
        # A call without drafts would cost a drafter with a model of its own a model call.
        if self._drafter is not None and drafts:
            self._drafter.propose(drafts)
        for step in steps:
            step.take_draft()
