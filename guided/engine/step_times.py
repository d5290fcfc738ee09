"""How long steps and closings take, so that a deadline is met by the step before it."""

from __future__ import annotations

from typing import Final

__all__ = ["ClosingTimes", "StepTimes"]

_FADING: Final = 0.9
"""What is left of the longest time with each step of the same size."""
_FADING_CLOSING: Final = 0.99
"""What is left of the time expected for closing with each step, of whatever size."""
_CLOSING_SECONDS: Final = 0.01
"""What closing answers is expected to take at least; a way out of 800 tokens is found in 5 ms."""


class ClosingTimes:
    """The longest time lately that was spent on closing answers between two steps."""

    def __init__(self) -> None:
        self.expected = _CLOSING_SECONDS
        """Seconds that the next closing will hardly exceed."""

    def note(self, seconds: float) -> None:
        """Take note of what the answers closed between two steps took together.

        What was expected before counts half: one slow closing must not end many others too early.
        """
        self.expected = max(seconds, self.expected / 2, _CLOSING_SECONDS)

    def fade(self) -> None:
        """Expect a little less with each step."""
        self.expected = max(_FADING_CLOSING * self.expected, _CLOSING_SECONDS)


class StepTimes:
    """The longest times lately, by the size of steps: powers of two of tokens that are certain."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def note(self, tokens: int, seconds: float) -> None:
        """Take note of a step of so many tokens."""
        size = tokens.bit_length()
        self._seconds[size] = max(seconds, _FADING * self._seconds.get(size, 0.0))

    def doubt(self, tokens: int) -> None:
        """Halve what is expected of so many tokens, as it ended a request and no step was made.

        What is not tried is not learnt, so one slow step would turn requests away for ever.
        """
        self._seconds[tokens.bit_length()] = self.expected(tokens) / 2

    def expected(self, tokens: int) -> float:
        """Seconds that a step of so many tokens will hardly exceed; 0 as long as none is known.

        Of a size that is not known it is the next greater one, or the greatest, doubled for each
        size between.
        """
        if not self._seconds:
            return 0.0
        size = tokens.bit_length()
        known = min((one for one in self._seconds if one >= size), default=max(self._seconds))
        return self._seconds[known] * 2.0 ** max(0, size - known)
