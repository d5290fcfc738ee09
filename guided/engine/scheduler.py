"""Which sequences a step serves, and how many tokens each of them gets; touches no tensor."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

__all__ = ["StepPlan", "plan_step"]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """How many of its pending tokens each running sequence computes in this step."""

    counts: tuple[int, ...]


def plan_step(pending: Items[int], step_tokens: int) -> StepPlan:
    """Share the tokens of a step among sequences with so many pending tokens each.

    Everyone gets one, so everyone moves; the rest goes to the shortest first, so an answer under
    way does not wait for a long prompt: pending 1, 700, 3 with 512 tokens → 1, 508, 3.
    """
    assert len(pending) <= step_tokens, f"{len(pending)} sequences, {step_tokens} tokens a step"
    counts = [1] * len(pending)
    left = step_tokens - len(pending)
    for index in sorted(range(len(pending)), key=lambda i: pending[i]):
        more = min(pending[index] - 1, left)
        counts[index] += more
        left -= more
    return StepPlan(tuple(counts))
