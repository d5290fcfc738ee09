"""Limits how long the engine's thread may work for constraints between two model calls.

Most work of a constraint for a new position takes microseconds, and is done at once. Work that
turns out to take longer is broken off here, and done in slices instead (``aside``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from guided.runtime.fuel import STAND_STILL, Pace, paced

__all__ = ["StepDeadline", "TakesLongError"]

_STEP_SECONDS: Final = 0.010
"""The limit for all requests of a step together."""
_LEAST_SECONDS: Final = 0.001
"""The least time of each request, however much the others took."""
_EVERY: Final = 250
"""Units of work, each about a microsecond, after which the clock is read."""
_LONGEST_KERNEL: Final = 1_000
"""The most units of a kernel that may still begin."""


class TakesLongError(BaseException):
    """The work was broken off, because it would take longer than there is time for.

    Derives from BaseException so that the work's own handlers do not catch it. What was built by
    then is kept, as after meeting a limit.
    """


class StepDeadline:
    """Breaks off work that takes too long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = clock
        self._step_ends = self._ends = 0.0
        self._units_left = 0.0
        self._pace = Pace(_EVERY, self._look, self._enter_kernel, _nothing)

    def begin_step(self) -> None:
        """Allow the time of a step again."""
        self._step_ends = self._now() + _STEP_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the time of the step is used up."""
        return self._now() >= self._step_ends

    def within_step_time(self, least: float = _LEAST_SECONDS) -> AbstractContextManager[None]:
        """Raise TakesLongError if the block works for longer than the time left in the step.

        It has ``least`` seconds in any case.
        """
        self._ends, self._units_left = max(self._step_ends, self._now() + least), math.inf
        return paced(self._pace)

    def within_units(self, units: int) -> AbstractContextManager[None]:
        """Raise TakesLongError if constraints do more than this many units of work in the block.

        For blocks that do other work as well, whose time does not count.
        """
        self._ends, self._units_left = math.inf, float(units)
        return paced(self._pace)

    def _look(self, units: int) -> None:
        self._units_left -= units
        # The holder of an awaited lock, STAND_STILL, has to be given a slice first.
        if units >= STAND_STILL or self._units_left < 0 or self._now() >= self._ends:
            raise TakesLongError

    def _enter_kernel(self, units: int) -> None:
        if units > _LONGEST_KERNEL:
            raise TakesLongError


def _nothing() -> None:
    """Do nothing: an awaited kernel has ended."""
