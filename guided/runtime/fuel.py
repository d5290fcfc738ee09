"""A bound on the work for a constraint, counted rather than timed, so that it is repeatable.

What is built for one goes through many small functions, and all of them draw on one tank.
It is held in a context variable, so work in different threads does not share it. As it is counted
everywhere, it is also where long work can be made to rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Final

from guided.errors import LimitExceededError

__all__ = ["LimitedSteps", "limited_work", "resting", "spend", "units_left"]


@dataclass(frozen=True, slots=True)
class _Rests:
    every: int
    rest: Callable[[], None]


class _Tank:
    __slots__ = ("left", "limit", "mark", "purpose", "rests")

    def __init__(self, limit: int, purpose: str) -> None:
        self.left = self.limit = limit
        self.purpose = purpose
        self.rests = _rests.get()
        self.mark = 0 if self.rests is None else self._next_mark()
        """Something is to be done when less than this is left."""

    def reach_mark(self) -> None:
        """Rest, or raise LimitExceededError; called when less than ``mark`` is left."""
        if self.left < 0:
            raise LimitExceededError(
                f"{self.purpose} takes more than {self.limit} units of work",
                limit=self.limit,
                field="constraint",
                hint="simplify the patterns, lower the bounds of repeats, "
                "or list fewer alternatives",
            )
        assert self.rests is not None, "a mark without a rest"
        self.rests.rest()
        self.mark = self._next_mark()

    def _next_mark(self) -> int:
        return 0 if self.rests is None else max(0, self.left - self.rests.every)


_tank: Final[ContextVar[_Tank | None]] = ContextVar("tank", default=None)
_rests: Final[ContextVar[_Rests | None]] = ContextVar("rests", default=None)


@contextmanager
def resting(rest: Callable[[], None], every: int) -> Iterator[None]:
    """Call ``rest`` after each ``every`` units or so of limited work in the block."""
    token = _rests.set(_Rests(every, rest))
    try:
        yield
    finally:
        _rests.reset(token)


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
        self._outer: list[Token[_Tank | None] | None] = []

    def __enter__(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
        self._outer.append(_tank.set(_Tank(self._limit, self._purpose)))

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the block, also where it raised."""
        outer = self._outer.pop()
        if outer is not None:
            _tank.reset(outer)
        if self._lock is not None:
            self._lock.release()


class LimitedSteps(_LimitedWork):
    """Limited work of blocks most of which spend nothing; those that do have to say so before."""

    __slots__ = ()

    def __enter__(self) -> None:
        self.enter()

    def enter(self) -> None:
        """Begin the block. For every token, and a statement ``with`` takes longer."""
        if self._lock is not None:
            self._lock.acquire()
        self._outer.append(None)

    @property
    def has_begun(self) -> bool:
        """Whether the innermost block counts already."""
        return bool(self._outer) and self._outer[-1] is not None

    def begin(self) -> bool:
        """Count from here on; False where the block counts already, and nothing is begun.

        Outside of a block it does nothing and says True, so callers need not ask where they are.
        """
        if self.has_begun:
            return False
        if self._outer:
            self._outer[-1] = _tank.set(_Tank(self._limit, self._purpose))
        return True


def units_left() -> int | None:
    """What may still be spent, ``None`` outside of ``limited_work``."""
    tank = _tank.get()
    return None if tank is None else tank.left


def spend(units: int) -> None:
    """Draw on the tank; outside of ``limited_work`` nothing is counted."""
    tank = _tank.get()
    if tank is None:
        return
    tank.left -= units
    if tank.left < tank.mark:
        tank.reach_mark()
