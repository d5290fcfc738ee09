"""A bound on the work for a constraint, counted rather than timed, so that it is repeatable.

What is built for one goes through many small functions, and all of them draw on one tank.
It is held in a context variable, so work in different threads does not share it.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token

from guided.errors import LimitExceededError

__all__ = ["limited_work", "spend"]


class _Tank:
    __slots__ = ("left", "limit", "purpose")

    def __init__(self, limit: int, purpose: str) -> None:
        self.left = self.limit = limit
        self.purpose = purpose


_tank: ContextVar[_Tank | None] = ContextVar("tank", default=None)


def limited_work(
    limit: int, purpose: str = "compiling", lock: threading.RLock | None = None
) -> AbstractContextManager[None]:
    """Let the block spend at most ``limit`` units, each about a microsecond.

    The block raises LimitExceededError, which names its ``purpose``, when it would spend more. With
    a ``lock``, which is held in the block, it may be entered again and again, by several threads.
    """
    return _LimitedWork(limit, purpose, lock)


class _LimitedWork:
    # Entered for every token: a class takes a third of the time of a generator.
    __slots__ = ("_limit", "_lock", "_outer", "_purpose")

    def __init__(self, limit: int, purpose: str, lock: threading.RLock | None) -> None:
        self._limit, self._purpose, self._lock = limit, purpose, lock
        self._outer: list[Token[_Tank | None]] = []

    def __enter__(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
        self._outer.append(_tank.set(_Tank(self._limit, self._purpose)))

    def __exit__(self, *_: object) -> None:
        _tank.reset(self._outer.pop())
        if self._lock is not None:
            self._lock.release()


def spend(units: int) -> None:
    """Draw on the tank; outside of ``limited_work`` nothing is counted."""
    tank = _tank.get()
    if tank is None:
        return
    tank.left -= units
    if tank.left < 0:
        raise LimitExceededError(
            f"{tank.purpose} takes more than {tank.limit} units of work",
            limit=tank.limit,
            field="constraint",
            hint="simplify the patterns, lower the bounds of repeats, or list fewer alternatives",
        )
