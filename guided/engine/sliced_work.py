"""Does work a slice at a time, so that whatever waits for it can do other things.

Work pauses where it is counted (``guided.runtime.work_budget``), after a number of units or a
length of time. A kernel takes long and needs no Python, so nothing waits for it: it runs beside
whatever comes next, and the work continues in a later slice.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from guided.runtime.tracebacks import clear_locals
from guided.runtime.work_budget import MUST_PAUSE, PauseHooks, use_pause_hooks

__all__ = ["SLICE_SECONDS", "RunningKernels", "SlicedWork"]

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
_SLICE_UNITS: Final = 5_000
"""Units of a slice, each about a microsecond."""
_CHECK_INTERVAL: Final = 250
"""Units between checks whether the slice is over."""
_POLL_SECONDS: Final = 0.001
"""Seconds between checks whether overdue work is in a kernel, or pauses."""
_SHORT_KERNEL: Final = 500
"""Units of a kernel that may always run beside others."""


class _CancelledError(BaseException):
    """Ends the work; derives from BaseException so that the work's own handlers do not catch it."""


class RunningKernels:
    """The kernels that run beside the engine: at most one that takes long.

    Each takes a core from the model; many would take all of them.
    """

    def __init__(self) -> None:
        self.running = 0
        """Kernels that nothing waits for."""
        self.lock = allocate_lock()


class SlicedWork(Generic[T]):
    """Work in a thread of its own, so that it keeps its stack.

    Either the caller runs or the work does, never both, except for kernels. So nothing shared
    changes during a step, and no Python runs beside a model call.
    """

    def __init__(self, work: Callable[[], T], kernels: RunningKernels | None = None) -> None:
        """``kernels`` are those of all the caller's work that run beside the caller."""
        self._work = work
        self._kernels = kernels or RunningKernels()
        # Most work is done in one slice, and a hand-over takes longer than the locks themselves.
        # So the thread begins with the first slice, and nothing waits for its start.
        # Releasing a lock hands over the turn: ``_work_turn`` to the work, ``_caller_turn`` back.
        self._work_turn = allocate_lock()
        self._caller_turn = allocate_lock()
        self._work_turn.acquire()
        self._caller_turn.acquire()
        self._outcome: Future[T] = Future()
        self._has_started = False
        self._is_cancelled = False
        self._is_in_kernel = False
        # The caller continued without it. Where both threads may run, these two change under the
        # lock of ``_kernels``: on detaching, and on leaving a kernel.
        self._was_detached = False
        self._units = 0
        self._slice_ends = 0.0
        self.seconds = 0.0
        """Seconds that the caller has waited for it so far."""

    @property
    def has_started(self) -> bool:
        """Whether some of it is done, so that it may hold locks and memory."""
        return self._has_started

    @property
    def is_detached(self) -> bool:
        """Whether it is in a kernel that the caller did not wait for; a slice would do nothing."""
        return self._was_detached and self._caller_turn.locked()

    def run_slice(self, seconds: float = SLICE_SECONDS) -> bool:
        """Do one more slice, and return whether the work is done."""
        if self._outcome.done() or self.is_detached:
            return self._outcome.done()
        if self._was_detached:
            # It has returned from its kernel, and paused since.
            self._caller_turn.acquire()
            self._was_detached = False
        began = time.monotonic()
        self._units, self._slice_ends = 0, began + seconds
        if self._has_started:
            self._work_turn.release()
        else:
            self._has_started = True
            start_new_thread(self._run, ())
        patience = seconds
        while not self._caller_turn.acquire(timeout=patience):
            if self._detach_in_kernel():
                break
            patience = _POLL_SECONDS
        self.seconds += time.monotonic() - began
        return self._outcome.done()

    def wait(self, seconds: float = SLICE_SECONDS) -> None:
        """Wait for the kernel that it is in, if any; for callers with nothing else to do."""
        if self.is_detached and self._caller_turn.acquire(timeout=seconds):
            self._caller_turn.release()

    def result(self) -> T:
        """Return the result, once the work is done; raises what the work raised."""
        return self._outcome.result(timeout=0)

    def cancel(self) -> None:
        """End the work where it pauses; in a kernel it ends later, without waiting for it."""
        if self._is_cancelled or self._outcome.done() or not self._has_started:
            self._is_cancelled = True
            return
        with self._kernels.lock:
            self._is_cancelled = True
            if self._was_detached and self._is_in_kernel:
                return
        # The thread is woken once more, so that it ends and frees its stack.
        if self._was_detached:
            self._caller_turn.acquire()
            self._was_detached = False
        self._work_turn.release()
        self._caller_turn.acquire()

    def _detach_in_kernel(self) -> bool:
        """Continue without work that is in a kernel; False if it is not in one."""
        with self._kernels.lock:
            if self._is_in_kernel:
                self._was_detached = True
                self._kernels.running += 1
            return self._was_detached

    # --- in the thread of the work --------------------------------------------------------

    def _run(self) -> None:
        """Run the thread: do the work, keep its result or error, and wake the caller."""
        pace = PauseHooks(
            _CHECK_INTERVAL, self._pause_if_due, self._enter_kernel, self._leave_kernel
        )
        try:
            with use_pause_hooks(pace):
                self._outcome.set_result(self._work())
        except BaseException as error:
            # What was half made is dropped here, not when somebody looks at the error.
            clear_locals(error)
            self._outcome.set_exception(error)
        # The error's traceback leads to this frame, which must not lead back to the error.
        caller_turn = self._caller_turn
        del self, pace
        caller_turn.release()

    def _pause_if_due(self, units: int) -> None:
        """Count units of work, and pause if the slice is over."""
        self._units += units
        if self._units >= _SLICE_UNITS or time.monotonic() >= self._slice_ends:
            self._pause()

    def _pause(self) -> None:
        """Tell the caller that the work rests, and rest until ``run_slice`` or ``cancel`` wakes it.

        Raises _CancelledError if it was ``cancel``. What then unwinds must not pause again, since
        nothing would wake it.
        """
        self._caller_turn.release()
        self._work_turn.acquire()
        if self._is_cancelled:
            raise _CancelledError

    def _enter_kernel(self, units: int) -> None:
        """Let a kernel begin; a long one pauses until no other runs beside the caller."""
        while units > _SHORT_KERNEL and self._kernels.running:
            self._pause_if_due(MUST_PAUSE)
        self._is_in_kernel = True

    def _leave_kernel(self) -> None:
        """Leave a kernel; if the caller has continued meanwhile, wait for the next slice."""
        with self._kernels.lock:
            self._is_in_kernel = False
            if not self._was_detached:
                return
            self._kernels.running -= 1
            if self._is_cancelled:
                # Nothing waits for this thread any more.
                raise _CancelledError
        self._pause()
