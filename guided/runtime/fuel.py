"""A bound on the work for a constraint, counted rather than timed, so that it is repeatable.

Building something for a constraint goes through many small functions, and all of them draw on one
*tank* of units. It is a context variable, so work in different threads does not share it. As work
is counted everywhere, this is also where long work can pause: a *pace* says how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Final, TypeVar

from guided.errors import LimitExceededError

__all__ = [
    "STAND_STILL",
    "LimitedSteps",
    "LimitedWork",
    "Pace",
    "limited_work",
    "paced",
    "pause_if_due",
    "spend",
    "take_lock",
    "units_left",
    "with_pauses",
    "without_gil",
]

_Item = TypeVar("_Item")

_ITEMS: Final = 500
"""Items between two checks whether it is time to pause; each takes a few microseconds."""
STAND_STILL: Final = 2**40
"""Units passed to ``rest`` if it must pause: work cannot continue before others have run."""


class Pace:
    """How work shares its thread with others: the functions it calls from time to time."""

    __slots__ = ("come_back", "every", "leave", "rest")

    def __init__(
        self,
        every: int,
        rest: Callable[[int], None],
        leave: Callable[[int], None],
        come_back: Callable[[], None],
    ) -> None:
        """``rest`` is called after about every ``every`` units, with how many units they were.

        ``leave`` and ``come_back`` are called around work that runs no Python; ``leave`` gets about
        how many units it takes. If ``leave`` raises, that work does not begin.
        """
        self.every: Final = every
        self.rest: Final = rest
        self.leave: Final = leave
        self.come_back: Final = come_back


class _Tank:
    __slots__ = ("left", "limit", "mark", "pace", "purpose", "rested")

    def __init__(self, limit: int, purpose: str) -> None:
        self.left = self.limit = self.rested = limit
        self.purpose = purpose
        self.pace = _pace.get()
        self.mark = 0 if self.pace is None else self._next_mark()
        """Something must be done when fewer units than this are left."""

    def reach_mark(self) -> None:
        """Pause, or raise LimitExceededError; called when fewer units than ``mark`` are left."""
        if self.left < 0:
            raise LimitExceededError(
                f"{self.purpose} takes more than {self.limit} units of work",
                limit=self.limit,
                field="constraint",
                hint="simplify the patterns, lower the bounds of repeats, "
                "or list fewer alternatives",
            )
        assert self.pace is not None, "a mark without a pace"
        spent, self.rested = self.rested - self.left, self.left
        self.pace.rest(spent)
        self.mark = self._next_mark()

    def _next_mark(self) -> int:
        return 0 if self.pace is None else max(0, self.left - self.pace.every)


_tank: Final[ContextVar[_Tank | None]] = ContextVar("tank", default=None)
_pace: Final[ContextVar[Pace | None]] = ContextVar("pace", default=None)


def paced(pace: Pace) -> AbstractContextManager[None]:
    """Make limited work in the block keep a pace."""
    return _Paced(pace)


class _Paced:
    # Entered for every token: a class takes a tenth of the time of a generator.
    __slots__ = ("_kept", "_outer")

    def __init__(self, pace: Pace) -> None:
        self._kept = pace
        self._outer: Token[Pace | None] | None = None

    def __enter__(self) -> None:
        self._outer = _pace.set(self._kept)

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            _pace.reset(self._outer)


def pause_if_due() -> None:
    """Pause if it is time to; for stretches in which little or nothing is counted."""
    pace = _pace.get()
    if pace is not None:
        pace.rest(0)


def with_pauses(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items, of which there may be many; pauses between them when it is time to."""
    left = 0
    for item in items:
        if not left:
            pause_if_due()
            left = _ITEMS
        left -= 1
        yield item


def without_gil(units: int) -> AbstractContextManager[None]:
    """Let others run during the block, which takes about ``units`` and runs no Python.

    It is meant for calls of kernels, which run without the GIL.
    """
    return _Apart(_pace.get(), units)


class _Apart:
    # Entered for each small automaton: a class takes a third of the time of a generator.
    __slots__ = ("_pace", "_units")

    def __init__(self, pace: Pace | None, units: int) -> None:
        self._pace, self._units = pace, units

    def __enter__(self) -> None:
        if self._pace is not None:
            self._pace.leave(self._units)

    def __exit__(self, *_: object) -> None:
        if self._pace is not None:
            self._pace.come_back()


def take_lock(lock: threading.RLock) -> None:
    """Acquire a lock that other work may hold while it pauses.

    Work that keeps a pace pauses until it gets the lock, because the holder may be waiting for that
    pause.
    """
    if lock.acquire(False):
        return
    pace = _pace.get()
    if pace is None:
        lock.acquire()
        return
    while not lock.acquire(False):
        pace.rest(STAND_STILL)


def limited_work(
    limit: int, purpose: str = "compiling", lock: threading.RLock | None = None
) -> LimitedWork:
    """Let the block spend at most ``limit`` units, each about a microsecond.

    The block raises LimitExceededError, which names its ``purpose``, when it would spend more. With
    a ``lock``, which is held in the block, it may be entered repeatedly, by several threads.
    """
    return LimitedWork(limit, purpose, lock)


class LimitedWork:
    """A block of work that is counted, see ``limited_work``."""

    # Entered for every token: a class takes a third of the time of a generator.
    __slots__ = ("_limit", "_lock", "_outer", "_purpose")

    def __init__(self, limit: int, purpose: str, lock: threading.RLock | None) -> None:
        self._limit, self._purpose, self._lock = limit, purpose, lock
        self._outer: list[Token[_Tank | None] | None] = []

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Begin the block. Called for every token, because a ``with`` statement takes longer."""
        if self._lock is not None and not self._lock.acquire(False):
            take_lock(self._lock)
        self._outer.append(_tank.set(_Tank(self._limit, self._purpose)))

    def leave(self) -> None:
        """End the block, even if it raised."""
        outer = self._outer.pop()
        if outer is not None:
            _tank.reset(outer)
        if self._lock is not None:
            self._lock.release()


class LimitedSteps(LimitedWork):
    """Limited work in blocks most of which spend nothing; the others call ``begin`` first."""

    __slots__ = ()

    def enter(self) -> None:
        """Begin the block, in which nothing is counted yet."""
        if self._lock is not None and not self._lock.acquire(False):
            take_lock(self._lock)
        self._outer.append(None)

    @property
    def has_begun(self) -> bool:
        """Whether the innermost block counts already."""
        return bool(self._outer) and self._outer[-1] is not None

    def begin(self) -> bool:
        """Count from here on; returns False, and begins nothing, if the block counts already.

        Outside a block it does nothing and returns True, so callers need not know where they are.
        """
        if self.has_begun:
            return False
        if self._outer:
            self._outer[-1] = _tank.set(_Tank(self._limit, self._purpose))
        return True


def units_left() -> int | None:
    """Return how many units may still be spent, ``None`` outside ``limited_work``."""
    tank = _tank.get()
    return None if tank is None else tank.left


def spend(units: int) -> None:
    """Take units from the tank; outside ``limited_work`` nothing is counted."""
    tank = _tank.get()
    if tank is None:
        return
    tank.left -= units
    if tank.left < tank.mark:
        tank.reach_mark()
