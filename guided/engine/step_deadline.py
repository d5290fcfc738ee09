"""Limits how long the engine's thread may work for constraints between two model calls.

Most work of a constraint for a new position takes microseconds, and is done at once. Work that
turns out to take longer is interrupted here, and done in slices instead (``paused_answers``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from guided.runtime.work_budget import MUST_PAUSE, PauseHooks, use_pause_hooks

__all__ = ["StepDeadline", "TakesLongError", "without_waiting"]

_STEP_SECONDS: Final = 0.010
"""The limit for all requests of a step together."""
_MIN_SECONDS: Final = 0.001
"""The least time of each request, however much the others took."""
_CHECK_INTERVAL: Final = 250
"""Units of work, each about a microsecond, after which the clock is read."""
_MAX_KERNEL_UNITS: Final = 1_000
"""The most units of a kernel that may still begin."""


class TakesLongError(BaseException):
    """The work was interrupted, because it would take longer than there is time for.

    Derives from BaseException so that handlers of errors in the work do not catch it. What was
    built by then is kept, as after meeting a limit.
    """


class StepDeadline:
    """Interrupts work for constraints that takes too long, by raising TakesLongError in it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = clock
        # Of the step, and of the block of ``within_step_time`` or ``within_units``.
        self._step_ends = self._block_ends = 0.0
        self._units_left = 0.0
        self._pace = PauseHooks(
            _CHECK_INTERVAL, self._check, self._enter_kernel, _ignore_kernel_end
        )

    def begin_step(self) -> None:
        """Allow the time of a step again."""
        self._step_ends = self._now() + _STEP_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the time of the step is used up."""
        return self._now() >= self._step_ends

    def within_step_time(self, least: float = _MIN_SECONDS) -> AbstractContextManager[None]:
        """Raise TakesLongError if the block works for longer than the time left in the step.

        It has ``least`` seconds in any case.
        """
        self._block_ends, self._units_left = max(self._step_ends, self._now() + least), math.inf
        return use_pause_hooks(self._pace)

    def within_units(self, units: int) -> AbstractContextManager[None]:
        """Raise TakesLongError if constraints do more than this many units of work in the block.

        For blocks that do other work as well, whose time does not count.
        """
        self._block_ends, self._units_left = math.inf, float(units)
        return use_pause_hooks(self._pace)

    def _check(self, units: int) -> None:
        """Count units of work; raise TakesLongError if the block has no more time or units."""
        self._units_left -= units
        # With MUST_PAUSE the work awaits a lock, whose holder has to be given a slice first.
        if units >= MUST_PAUSE or self._units_left < 0 or self._now() >= self._block_ends:
            raise TakesLongError

    def _enter_kernel(self, units: int) -> None:
        """Raise TakesLongError before a kernel that takes long, as none can be interrupted."""
        if units > _MAX_KERNEL_UNITS:
            raise TakesLongError


def _ignore_kernel_end() -> None:
    """Do nothing: an awaited kernel has ended."""


def without_waiting() -> AbstractContextManager[None]:
    """Raise TakesLongError if constraints have to wait for a lock in the block.

    They may work as long as they need.
    """
    return use_pause_hooks(_NEVER_WAITING)


def _refuse_to_wait(units: int) -> None:
    if units >= MUST_PAUSE:
        raise TakesLongError


def _ignore_kernel(_: int) -> None:
    """Do nothing: a kernel may take as long as it needs."""


_NEVER_WAITING: Final = PauseHooks(MUST_PAUSE, _refuse_to_wait, _ignore_kernel, _ignore_kernel_end)
