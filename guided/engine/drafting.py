"""Beginning the steps of one model call: certain tokens, and drafts for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from guided.decoding.draft_budget import CostCurve, DraftBudget
from guided.drafters.union import DrafterUnion
from guided.engine.haste import Haste, TakesLongError
from guided.engine.isolation import Isolation, is_of_request
from guided.engine.runnable import Runnable, Step
from guided.errors import incident_of

__all__ = ["Drafting", "Plan"]

Plan: TypeAlias = Sequence[tuple[Runnable, int]]
"""How many of its pending tokens each of the running computes."""

_CALLS: Final = 16.0
"""Model calls over which it is averaged how slow they are."""
_OUTLIER: Final = 4.0
_MOST_WORK: Final = 10_000
"""Units of work that drafts of one step may take of constraints, each about a microsecond."""
_WORK_ALONE: Final = 2_000
"""For one sequence, where drafts of all took more."""
_STEPS_UNDRAFTED: Final = 16


class Drafting:
    """Begins the steps of a plan, and lets the drafter add to their trees."""

    def __init__(
        self,
        drafter: DrafterUnion | None,
        widest_draft: int,
        costs: CostCurve | None,
        haste: Haste | None = None,
    ) -> None:
        """``haste`` breaks drafting off that takes too long."""
        self._haste = haste or Haste()
        self._drafter = drafter
        self._widest_draft = widest_draft
        self._costs = costs
        self.slowness = 1.0
        """What calls take lately, as a multiple of what the curve says: other processes run, and
        long texts take longer than those that it was measured with."""
        self._known_to_fail: set[str] = set()
        """The drafters of which a fault was logged; that may come again in every step."""

    def draft(
        self,
        plan: Plan,
        isolated: Callable[[str], Isolation],
        pause: Callable[[Runnable, Callable[[], Step]], None],
    ) -> list[Step]:
        """One step for each of the plan, but for those whose request fails here.

        A drafter is asked once for all. Where that fails, each drafts alone, from the start, so
        only those go without drafts for which it fails again. So too where it takes too long.
        ``pause`` is called for those whose step itself takes too long to begin, with what does it.
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
                        with self._haste.hurried():
                            steps.append(runnable.begin_step(count, budget))
                    except TakesLongError:
                        # A budget is used up, so to begin a second time takes another.
                        spare = self._budget(runnable, shares)
                        pause(runnable, partial(runnable.begin_step, count, spare))
        begun = [(runnable, count) for runnable, count in plan if not runnable.is_paused]
        try:
            with self._haste.counted(_MOST_WORK):
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
        """Note how many seconds a model call over a number of tokens took."""
        if self._costs is not None:
            # One that was interrupted must not count for all that follow.
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
        """A step with drafts, or without where a drafter fails: the answer does not need them."""
        step = runnable.begin_step(count, budget)
        try:
            with self._haste.counted(_WORK_ALONE):
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
        """Log that a drafter failed, only the first time for each drafter."""
        # The builder knows who was about to add to it.
        name = "" if step.draft is None else step.draft.builder.source
        if name not in self._known_to_fail:
            self._known_to_fail.add(name)
            incident_of(
                fault,
                f"drafter {name!r} failed on request {step.runnable.request_id!r}, which goes on "
                "without its drafts, as will others without a word",
            )

    def _shares(self, plan: Plan) -> tuple[int, int, int]:
        """What a step computes as a whole: certain tokens, those that may draft, and those that go
        on without.
        """
        if not self._widest_draft:
            return 0, 0, 0
        # Who has more prompt to compute than this step takes gets no token in it.
        whole = [runnable for runnable, count in plan if count == runnable.pending]
        drafting = sum([each.is_drafting and not each.steps_undrafted for each in whole])
        return sum([count for _, count in plan]), drafting, len(whole) - drafting

    def _budget(self, runnable: Runnable, shares: tuple[int, int, int]) -> DraftBudget:
        """That of one in a step with these ``_shares``; it counts what its own sequence drafts."""
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
        # A call without drafts would cost a drafter that runs a model of its own a call.
        if self._drafter is not None and drafts:
            self._drafter.propose(drafts)
        for step in steps:
            step.take_draft()
