"""A histogram that is being filled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guided.stats import Histogram

__all__ = ["BOUNDS", "Durations"]

BOUNDS = tuple(
    float(f"{digit}e{power}") for power in range(-3, 3) for digit in (1, 2, 5)
)  # 1 ms to 500 s
"""Upper bounds of the ranges in seconds, the same everywhere, so that times can be compared."""

_BOUNDS = np.array(BOUNDS)


class Durations:
    """Counts durations by range."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = np.zeros(len(BOUNDS) + 1, np.int64)
        self._total = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        """Count some more."""
        values = np.asarray(seconds, np.float64)
        ranges = np.searchsorted(_BOUNDS, values)
        self._counts += np.bincount(ranges, minlength=len(self._counts))
        self._total += float(values.sum())

    def histogram(self) -> Histogram:
        """What was counted so far."""
        return Histogram(BOUNDS, tuple(self._counts.tolist()), self._total)
