"""How long steps and closings take, so that a deadline is met by the step before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.engine.submission import ServiceOrder

__all__ = ["ClosingTimes", "Deadlines", "StepTimes"]

_STEP_DECAY: Final = 0.9
"""The share of the longest time that remains after each step of the same size."""
_CLOSING_DECAY: Final = 0.99
"""The share of the expected closing time that remains after each step, of any size."""
_CLOSING_SECONDS: Final = 0.01
"""The least time expected for closing; a shortest completion of 800 tokens is found in 5 ms."""


class Deadlines:
    """Foresees which answers would be late after one more step."""

    def __init__(self) -> None:
        self.steps = StepTimes()
        self.closings = ClosingTimes()

    def predict_end(self, now: float, tokens: int) -> float:
        """Return the time by which a step of this size, and the closings after it, will be done."""
        return now + self.steps.expected_seconds(tokens) + self.closings.expected_seconds

    def record_step(self, tokens: int, seconds: float) -> None:
        """Record a step that computed this number of certain tokens."""
        # Closings are rare, so the time expected for them fades with every step.
        self.steps.record(tokens, seconds)
        self.closings.decay()

    def record_closings(
        self, ended: Sequence[ServiceOrder], tokens: int, began: float, now: float
    ) -> None:
        """Record answers that ended because a step of this size would have been late."""
        self.closings.record(now - began)
        # Answers that were late already say nothing about steps; a foreseen delay may be wrong.
        if not all(order.is_late(began) for order in ended):
            self.steps.halve(tokens)


class ClosingTimes:
    """The longest recent time spent on closing answers between two steps."""

    def __init__(self) -> None:
        self.expected_seconds = _CLOSING_SECONDS
        """Seconds that the next closing will hardly exceed."""

    def record(self, seconds: float) -> None:
        """Record how long all closings between two steps took together.

        The earlier expectation counts half: one slow closing must not end many others too early.
        """
        self.expected_seconds = max(seconds, self.expected_seconds / 2, _CLOSING_SECONDS)

    def decay(self) -> None:
        """Expect a little less with each step."""
        self.expected_seconds = max(_CLOSING_DECAY * self.expected_seconds, _CLOSING_SECONDS)


class StepTimes:
    """The longest recent step times, by size: powers of two of the number of certain tokens."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def record(self, tokens: int, seconds: float) -> None:
        """Record a step that computed this number of certain tokens."""
        # Powers of two are few enough that the time of each is soon known.
        size = tokens.bit_length()
        # The longest, not the mean: a step that takes longer than expected makes answers late.
        self._seconds[size] = max(seconds, _STEP_DECAY * self._seconds.get(size, 0.0))

    def halve(self, tokens: int) -> None:
        """Halve the time expected for this size, because it ended a request without a step.

        A size that is never tried is never measured, so one slow step would turn requests away for
        ever.
        """
        self._seconds[tokens.bit_length()] = self.expected_seconds(tokens) / 2

    def expected_seconds(self, tokens: int) -> float:
        """Return the seconds that a step of this size will hardly exceed; 0 while none is known.

        A size without a time of its own takes that of the next greater one. Above all known sizes
        the time of the greatest is doubled for each size in between.
        """
        # The first step is made whatever the deadlines, and shows how long steps take.
        if not self._seconds:
            return 0.0
        size = tokens.bit_length()
        known = min((one for one in self._seconds if one >= size), default=max(self._seconds))
        return self._seconds[known] * 2.0 ** max(0, size - known)
