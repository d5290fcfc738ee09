"""A bound on the work for a constraint, counted rather than timed, so that it is repeatable.

Building something for a constraint goes through many small functions, and all of them spend units
of one *work budget*. It is a context variable, so work in different threads does not share it. As
work is counted everywhere, this is also where long work can pause: *pause hooks* say how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from typing import Final, TypeVar

from guided.errors import LimitExceededError

__all__ = [
    "MUST_PAUSE",
    "LimitedSteps",
    "LimitedWork",
    "PauseHooks",
    "limited_work",
    "pause_if_due",
    "renewed_work",
    "spend",
    "take_lock",
    "units_left",
    "use_pause_hooks",
    "with_pauses",
    "without_gil",
]

_Item = TypeVar("_Item")

_ITEMS_PER_CHECK: Final = 500
"""Items between two checks whether it is time to pause; each takes a few microseconds."""
MUST_PAUSE: Final = 2**40
"""Units passed to ``PauseHooks.pause`` where work cannot continue before others have run."""


class PauseHooks:
    """Functions that long work calls from time to time, so that other work can run."""

    __slots__ = ("after_kernel", "before_kernel", "interval", "pause")

    def __init__(
        self,
        interval: int,
        pause: Callable[[int], None],
        before_kernel: Callable[[int], None],
        after_kernel: Callable[[], None],
    ) -> None:
        """``pause`` is called about every ``interval`` units, with the units since the last call.
        It may raise to end the work, whose machine is used again: at each pause it has to be whole.

        ``before_kernel`` and ``after_kernel`` are called around work that runs no Python;
        ``before_kernel`` gets about how many units it takes. If it raises, that work does not
        begin.
        """
        self.interval: Final = interval
        self.pause: Final = pause
        self.before_kernel: Final = before_kernel
        self.after_kernel: Final = after_kernel


class _WorkBudget:
    """The units that work may still spend, and when it has to pause next."""

    __slots__ = ("left", "left_at_pause", "limit", "pause_hooks", "purpose", "threshold")

    def __init__(self, limit: int, purpose: str) -> None:
        self.left = self.limit = self.left_at_pause = limit
        self.purpose = purpose
        self.pause_hooks = _pause_hooks.get()
        self.threshold = 0 if self.pause_hooks is None else self._next_threshold()
        """``pause_or_raise`` has to be called when fewer units than this are left."""

    def pause_or_raise(self) -> None:
        """Pause, or raise LimitExceededError; for fewer units left than ``threshold``."""
        if self.left < 0:
            raise LimitExceededError(
                f"{self.purpose} takes more than {self.limit} units of work",
                limit=self.limit,
                field="constraint",
                hint="simplify the patterns, lower the bounds of repeats, "
                "or list fewer alternatives",
            )
        assert self.pause_hooks is not None, "a threshold without pause hooks"
        spent, self.left_at_pause = self.left_at_pause - self.left, self.left
        self.pause_hooks.pause(spent)
        self.threshold = self._next_threshold()

    def _next_threshold(self) -> int:
        return 0 if self.pause_hooks is None else max(0, self.left - self.pause_hooks.interval)


_budget: Final[ContextVar[_WorkBudget | None]] = ContextVar("work_budget", default=None)
_pause_hooks: Final[ContextVar[PauseHooks | None]] = ContextVar("pause_hooks", default=None)


def use_pause_hooks(hooks: PauseHooks) -> AbstractContextManager[None]:
    """Call these hooks for limited work in the block."""
    return _UsePauseHooks(hooks)


class _UsePauseHooks:
    # Entered for every token: a class takes a tenth of the time of a generator.
    __slots__ = ("_hooks", "_outer")

    def __init__(self, hooks: PauseHooks) -> None:
        self._hooks = hooks
        self._outer: Token[PauseHooks | None] | None = None

    def __enter__(self) -> None:
        self._outer = _pause_hooks.set(self._hooks)

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            _pause_hooks.reset(self._outer)


def pause_if_due() -> None:
    """Pause if it is time to; for stretches in which little or nothing is counted."""
    hooks = _pause_hooks.get()
    if hooks is not None:
        hooks.pause(0)


def with_pauses(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items, of which there may be many; pauses between them when it is time to."""
    left = 0
    for item in items:
        if not left:
            pause_if_due()
            left = _ITEMS_PER_CHECK
        left -= 1
        yield item


def without_gil(units: int) -> AbstractContextManager[None]:
    """Let others run during the block, which takes about ``units`` and runs no Python.

    It is meant for calls of kernels, which run without the GIL.
    """
    return _WithoutGil(_pause_hooks.get(), units)


class _WithoutGil:
    # Entered for each small automaton: a class takes a third of the time of a generator.
    __slots__ = ("_hooks", "_units")

    def __init__(self, hooks: PauseHooks | None, units: int) -> None:
        self._hooks, self._units = hooks, units

    def __enter__(self) -> None:
        if self._hooks is not None:
            self._hooks.before_kernel(self._units)

    def __exit__(self, *_: object) -> None:
        if self._hooks is not None:
            self._hooks.after_kernel()


def take_lock(lock: threading.RLock) -> None:
    """Acquire a lock that other work may hold while it pauses.

    Work with pause hooks pauses until it gets the lock, because the holder may be waiting for that
    pause.
    """
    if lock.acquire(False):
        return
    hooks = _pause_hooks.get()
    if hooks is None:
        lock.acquire()
        return
    while not lock.acquire(False):
        hooks.pause(MUST_PAUSE)


def limited_work(
    limit: int, purpose: str = "compiling", lock: threading.RLock | None = None
) -> LimitedWork:
    """Let the block spend at most ``limit`` units, each about a microsecond.

    The block raises LimitExceededError, which names its ``purpose``, when it would spend more. With
    a ``lock``, which is held in the block, it may be entered repeatedly, by several threads.
    """
    return LimitedWork(limit, purpose, lock)


def renewed_work() -> AbstractContextManager[None]:
    """Let the block spend as much as the limited work around it at first, which it may have spent.

    For finding out what the work failed for. Outside ``limited_work`` nothing is counted.
    """
    budget = _budget.get()
    return nullcontext() if budget is None else limited_work(budget.limit, budget.purpose)


class LimitedWork:
    """A block of work that is counted, see ``limited_work``."""

    # Entered for every token: a class takes a third of the time of a generator.
    __slots__ = ("_limit", "_lock", "_outer", "_purpose")

    def __init__(self, limit: int, purpose: str, lock: threading.RLock | None) -> None:
        self._limit, self._purpose, self._lock = limit, purpose, lock
        self._outer: list[Token[_WorkBudget | None] | None] = []

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Begin the block. Called for every token, because a ``with`` statement takes longer."""
        if self._lock is not None and not self._lock.acquire(False):
            take_lock(self._lock)
        self._outer.append(_budget.set(_WorkBudget(self._limit, self._purpose)))

    def leave(self) -> None:
        """End the block, even if it raised."""
        outer = self._outer.pop()
        if outer is not None:
            _budget.reset(outer)
        if self._lock is not None:
            self._lock.release()


class LimitedSteps(LimitedWork):
    """Limited work in blocks most of which spend nothing; the others call ``start_counting``."""

    __slots__ = ()

    def enter(self) -> None:
        """Begin the block, in which nothing is counted yet."""
        if self._lock is not None and not self._lock.acquire(False):
            take_lock(self._lock)
        self._outer.append(None)

    @property
    def is_counting(self) -> bool:
        """Whether the innermost block counts already."""
        return bool(self._outer) and self._outer[-1] is not None

    def start_counting(self) -> bool:
        """Count from here on; returns False, and does nothing, if the block counts already.

        Outside a block it does nothing and returns True, so callers need not know where they are.
        """
        if self.is_counting:
            return False
        if self._outer:
            self._outer[-1] = _budget.set(_WorkBudget(self._limit, self._purpose))
        return True


def units_left() -> int | None:
    """Return how many units may still be spent; ``None`` outside ``limited_work``."""
    budget = _budget.get()
    return None if budget is None else budget.left


def spend(units: int) -> None:
    """Take units from the work budget; outside ``limited_work`` nothing is counted."""
    budget = _budget.get()
    if budget is None:
        return
    budget.left -= units
    if budget.left < budget.threshold:
        budget.pause_or_raise()
