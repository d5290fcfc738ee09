"""A bound on the work of one compilation, counted rather than timed, so that it is repeatable.

What is built for a constraint goes through many small functions, and all of them draw on one tank.
It is held in a context variable, so compilations in different threads do not share it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from guided.errors import LimitExceededError

__all__ = ["limited_work", "spend"]

_left: ContextVar[list[int] | None] = ContextVar("fuel_left", default=None)


def limited_work(limit: int) -> AbstractContextManager[None]:
    """Let the block spend at most ``limit`` units, each about a microsecond.

    The block raises LimitExceededError when it would spend more.
    """
    return _LimitedWork(limit)


class _LimitedWork:
    # Entered for every token: a class takes a third of the time of a generator.
    __slots__ = ("_limit", "_token")

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __enter__(self) -> None:
        self._token = _left.set([self._limit, self._limit])

    def __exit__(self, *_: object) -> None:
        _left.reset(self._token)


def spend(units: int) -> None:
    """Draw on the tank; outside of ``limited_work`` nothing is counted."""
    tank = _left.get()
    if tank is None:
        return
    tank[0] -= units
    if tank[0] < 0:
        raise LimitExceededError(
            f"compiling takes more than {tank[1]} units of work",
            limit=tank[1],
            field="constraint",
            hint="simplify the patterns, lower the bounds of repeats, or list fewer alternatives",
        )
