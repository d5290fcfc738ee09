"""Long work in slices, so that running requests have their steps between them."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from guided.runtime.fuel import resting

__all__ = ["Sliced"]

T = TypeVar("T")

_SLICE = 5_000
"""Units of work, each about a microsecond."""


class _GivenUpError(BaseException):
    """Ends the work; no handler of errors takes it for one."""


class Sliced(Generic[T]):
    """Work that rests wherever enough of it is counted (``guided.runtime.fuel``).

    It has a thread of its own for its stack alone: either the caller runs or the work does, never
    both, so nothing is ever changed beside a step, and no Python runs beside a model call.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        # Most work is done in one slice, and to hand over takes longer than the locks themselves:
        # so the thread begins with the first slice, and nobody waits for it to say that it has.
        self._go = allocate_lock()
        self._rested = allocate_lock()
        self._go.acquire()
        self._rested.acquire()
        self._outcome: Future[T] = Future()
        self._is_begun = False
        self._is_given_up = False

    def go_on(self) -> bool:
        """Do one more slice, and say whether the work is done."""
        if not self._outcome.done():
            if self._is_begun:
                self._go.release()
            else:
                start_new_thread(self._run, ())
                self._is_begun = True
            self._rested.acquire()
        return self._outcome.done()

    def result(self) -> T:
        """What came of it, once it is done; raises what the work raised."""
        return self._outcome.result(timeout=0)

    def give_up(self) -> None:
        """End the work where it rests."""
        self._is_given_up = True
        if self._is_begun:
            self.go_on()

    def _run(self) -> None:
        try:
            with resting(self._rest, _SLICE):
                self._outcome.set_result(self._work())
        except BaseException as error:
            self._outcome.set_exception(error)
        self._rested.release()

    def _rest(self) -> None:
        self._rested.release()
        self._go.acquire()
        self._check_wanted()

    def _check_wanted(self) -> None:
        if self._is_given_up:
            raise _GivenUpError
