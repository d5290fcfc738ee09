"""Counts the masks of one compiler: a few plain integers, as every mask passes here."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from guided.stats import Histogram

__all__ = ["MASK_BOUNDS", "MaskCounts"]

MASK_BOUNDS: Final = (
    *(float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 2, 5)),
    1.0,
)  # 1 µs to 1 s
"""Upper bounds of the ranges of durations, in seconds."""

_BOUNDS: Final = [round(bound * 1e9) for bound in MASK_BOUNDS]


class MaskCounts:
    """How many masks were found, and how long the others took.

    It has no lock, which would take longer than what it counts. Threads that use one compiler at
    the same time may lose a few counts; an engine has one thread for its masks.
    """

    def __init__(self) -> None:
        self.hits = 0
        """Masks that were kept, of the position or of another like it."""
        self.made = 0
        """Masks that were made, including those that others are made of."""
        self._ranges = [0] * (len(_BOUNDS) + 1)
        self._nanoseconds = 0

    def count_computed(self, nanoseconds: int) -> None:
        """Count a mask that had to be computed."""
        # A bound belongs to the range below it; the last range is above all bounds.
        self._ranges[bisect_left(_BOUNDS, nanoseconds)] += 1
        self._nanoseconds += nanoseconds

    def computed(self) -> Histogram:
        """Return the times of the masks that were computed so far."""
        return Histogram(MASK_BOUNDS, tuple(self._ranges), self._nanoseconds / 1e9)
