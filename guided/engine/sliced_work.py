"""Does work a slice at a time, so that whatever waits for it can do other things.

Work rests where it is counted (``guided.runtime.fuel``), after a number of units or a length of
time. A kernel takes long and needs no Python, so nothing waits for it: it runs beside whatever
comes next, and the work continues in a later slice.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from guided.runtime.fuel import STAND_STILL, Pace, paced

__all__ = ["SLICE_SECONDS", "Kernels", "SlicedWork"]

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
_SLICE: Final = 5_000
"""Units of a slice, each about a microsecond."""
_EVERY: Final = 250
"""Units between checks whether the slice is over."""
_LOOK_SECONDS: Final = 0.001
"""Seconds between checks whether overdue work is in a kernel, or rests."""
_SHORT: Final = 500
"""Units of a kernel that may always run beside others."""


class _GivenUpError(BaseException):
    """Ends the work; derives from BaseException so that the work's own handlers do not catch it."""


class Kernels:
    """The kernels that run beside the engine: at most one that takes long.

    Each takes a core from the model; many would take all of them.
    """

    def __init__(self) -> None:
        self.running = 0
        self.lock = allocate_lock()


class SlicedWork(Generic[T]):
    """Work in a thread of its own, so that it keeps its stack.

    Either the caller runs or the work does, never both, except for kernels. So nothing shared
    changes during a step, and no Python runs beside a model call.
    """

    def __init__(self, work: Callable[[], T], kernels: Kernels | None = None) -> None:
        """``kernels`` are those of all the caller's work that run beside the caller."""
        self._work = work
        self._kernels = kernels or Kernels()
        # Most work is done in one slice, and a hand-over takes longer than the locks themselves.
        # So the thread begins with the first slice, and nothing waits for its start.
        # Two locks hand over the turn: to the work when ``_go`` is released, back with ``_rested``.
        self._go = allocate_lock()
        self._rested = allocate_lock()
        self._go.acquire()
        self._rested.acquire()
        self._outcome: Future[T] = Future()
        self._is_begun = False
        self._is_given_up = False
        self._is_in_kernel = False
        # The caller continued without it; both are changed under the lock of ``Kernels``.
        self._is_left = False
        self._units = 0
        self._ends = 0.0
        self.seconds = 0.0
        """Seconds that the caller has waited for it so far."""

    @property
    def is_begun(self) -> bool:
        """Whether some of it is done, so that it holds what that needs."""
        return self._is_begun

    @property
    def is_away(self) -> bool:
        """Whether it is in a kernel that the caller did not wait for; a slice would do nothing."""
        return self._is_left and self._rested.locked()

    def run_slice(self, seconds: float = SLICE_SECONDS) -> bool:
        """Do one more slice, and return whether the work is done."""
        if self._outcome.done() or self.is_away:
            return self._outcome.done()
        if self._is_left:
            # It has returned from its kernel, and rested since.
            self._rested.acquire()
            self._is_left = False
        began = time.monotonic()
        self._units, self._ends = 0, began + seconds
        if self._is_begun:
            self._go.release()
        else:
            self._is_begun = True
            start_new_thread(self._run, ())
        patience = seconds
        while not self._rested.acquire(timeout=patience):
            if self._leave_in_kernel():
                break
            patience = _LOOK_SECONDS
        self.seconds += time.monotonic() - began
        return self._outcome.done()

    def wait(self, seconds: float = SLICE_SECONDS) -> None:
        """Wait for the kernel that it is in, if any; for callers with nothing else to do."""
        if self.is_away and self._rested.acquire(timeout=seconds):
            self._rested.release()

    def finish(self) -> None:
        """Do all of it."""
        while not self.run_slice():
            self.wait()

    def result(self) -> T:
        """Return the result, once the work is done; raises what the work raised."""
        return self._outcome.result(timeout=0)

    def give_up(self) -> None:
        """End the work where it rests; in a kernel it ends later, without waiting for it."""
        if self._outcome.done() or not self._is_begun:
            self._is_given_up = True
            return
        with self._kernels.lock:
            self._is_given_up = True
            if self._is_left and self._is_in_kernel:
                return
        # The thread is woken once more, so that it ends and frees its stack.
        if self._is_left:
            self._rested.acquire()
        self._go.release()
        self._rested.acquire()

    def _leave_in_kernel(self) -> bool:
        """Continue without work that is in a kernel; False if it is not in one."""
        with self._kernels.lock:
            if self._is_in_kernel:
                self._is_left = True
                self._kernels.running += 1
            return self._is_left

    # --- in the thread of the work --------------------------------------------------------

    def _run(self) -> None:
        """Run the thread: do the work, keep its result or error, and wake the caller."""
        try:
            pace = Pace(_EVERY, self._rest, self._enter_kernel, self._come_back)
            with paced(pace):
                self._outcome.set_result(self._work())
        except BaseException as error:
            self._outcome.set_exception(error)
        self._rested.release()

    def _rest(self, units: int) -> None:
        self._units += units
        if self._units >= _SLICE or time.monotonic() >= self._ends:
            self._hand_over()

    def _hand_over(self) -> None:
        self._rested.release()
        self._go.acquire()
        if self._is_given_up:
            raise _GivenUpError

    def _enter_kernel(self, units: int) -> None:
        while units > _SHORT and self._kernels.running:
            self._rest(STAND_STILL)
        self._is_in_kernel = True

    def _come_back(self) -> None:
        """Leave a kernel; if the engine has continued meanwhile, wait for the next slice."""
        with self._kernels.lock:
            self._is_in_kernel = False
            if not self._is_left:
                return
            self._kernels.running -= 1
            if self._is_given_up:
                # Nothing waits for this thread any more.
                raise _GivenUpError
        self._hand_over()
