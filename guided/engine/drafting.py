"""Beginning the steps of one model call: certain tokens, and drafts for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from guided.decoding.draft_budget import CostCurve, DraftBudget
from guided.drafters.union import DrafterUnion
from guided.engine.isolation import Isolation, is_of_request
from guided.engine.runnable import Runnable, Step

__all__ = ["Drafting", "Plan"]

Plan: TypeAlias = Sequence[tuple[Runnable, int]]
"""How many of its pending tokens each of the running computes."""

_CALLS: Final = 16.0
"""Model calls over which it is averaged how slow they are."""
_OUTLIER: Final = 4.0


class Drafting:
    """Begins the steps of a plan, and lets the drafter add to their trees."""

    def __init__(
        self, drafter: DrafterUnion | None, widest_draft: int, costs: CostCurve | None
    ) -> None:
        self._drafter = drafter
        self._widest_draft = widest_draft
        self._costs = costs
        self.slowness = 1.0
        """What calls take lately, as a multiple of what the curve says: other processes run, and
        long texts take longer than those that it was measured with."""

    def draft(self, plan: Plan, isolated: Callable[[str], Isolation]) -> list[Step]:
        """One step for each of the plan, but for those whose request fails here.

        A drafter is asked once for all. Where that fails, each drafts alone, from the start, which
        shows whose fault it is.
        """
        steps = []
        for (runnable, count), budget in zip(plan, self._budgets(plan), strict=True):
            if runnable.is_running:  # unless another answer to its request failed
                with isolated(runnable.request_id):
                    steps.append(runnable.begin_step(count, budget))
        try:
            self._propose(steps)
        except BaseException as fault:
            if not is_of_request(fault):
                raise
            # Steps have reserved nothing yet, so they can be given up and begun again.
            return self._draft_alone(plan, isolated)
        return steps

    def note_call(self, tokens: int, seconds: float) -> None:
        """Note how long a model call over so many tokens took."""
        if self._costs is not None:
            # One that was interrupted must not count for all that follow.
            ratio = min(seconds / self._costs.seconds(tokens), _OUTLIER * self.slowness)
            self.slowness += (ratio - self.slowness) / _CALLS

    def _draft_alone(self, plan: Plan, isolated: Callable[[str], Isolation]) -> list[Step]:
        steps = []
        for (runnable, count), budget in zip(plan, self._budgets(plan), strict=True):
            if runnable.is_running:
                with isolated(runnable.request_id):
                    step = runnable.begin_step(count, budget)
                    self._propose([step])
                    steps.append(step)
        return steps

    def _budgets(self, plan: Plan) -> list[DraftBudget]:
        certain = sum([count for _, count in plan])
        # Who has more prompt to compute than this step takes cannot draft in it.
        drafting = sum([count == runnable.pending for runnable, count in plan])
        # One for each, as a budget counts what its own sequence drafts.
        return [
            DraftBudget(
                self._widest_draft,
                self._costs,
                certain=certain,
                sequences=drafting,
                slowness=self.slowness,
            )
            for _ in plan
        ]

    def _propose(self, steps: Sequence[Step]) -> None:
        drafts = [step.draft for step in steps if step.draft is not None]
        # A call without drafts would cost a drafter that runs a model of its own a call.
        if self._drafter is not None and drafts:
            self._drafter.propose(drafts)
        for step in steps:
            step.take_draft()
