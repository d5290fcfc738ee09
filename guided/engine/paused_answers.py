"""Work for constraints that takes too long between two model calls, done in slices.

The answers that wait for it pause meanwhile; all others continue with their steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from guided.engine.runnable import Runnable
from guided.engine.sliced_work import RunningKernels, SlicedWork
from guided.engine.turns import move_client_to_end
from guided.spec import Constraint

__all__ = ["PausedAnswer", "PausedAnswers"]

T = TypeVar("T")


class PausedAnswer:
    """An answer that pauses until its work is done."""

    def __init__(
        self,
        runnable: Runnable,
        work: Callable[[], T],
        on_done: Callable[[T], None],
        kernels: RunningKernels,
        *,
        is_repeatable: bool = True,
    ) -> None:
        """``on_done`` takes the result of ``work``, in the engine's thread.

        ``is_repeatable`` says that the work changes nothing in the answer, so it may be restarted.
        """
        self.runnable = runnable
        self._is_repeatable = is_repeatable
        self._make_work = partial(SlicedWork[Any], work, kernels)
        self._on_done: Callable[[Any], None] = on_done
        self.work: SlicedWork[Any] = self._make_work()

    @property
    def client(self) -> str:
        """The client whose answer it is."""
        return self.runnable.submission.client

    def release_locks(self) -> None:
        """Make the work release its locks: restart it, or finish it where that is not possible."""
        if self._is_repeatable:
            self.work.cancel()
            self.work = self._make_work()
        else:
            self.work.finish()

    def resume(self) -> None:
        """Continue the answer with the result of the work; raises what the work raised."""
        self._on_done(self.work.result())


class PausedAnswers:
    """The answers that pause; their clients take turns by slices."""

    def __init__(self) -> None:
        self._queue: list[PausedAnswer] = []

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, paused: PausedAnswer) -> None:
        """Pause an answer."""
        paused.runnable.is_paused = True
        self._queue.append(paused)

    def run_slice(self, *, may_wait: bool) -> PausedAnswer | None:
        """Do a slice of work; remove and return the answer that can continue after it.

        ``may_wait`` lets it wait for a kernel, because the caller has nothing else to do.
        """
        if not self._queue:
            return None
        index = next((n for n, each in enumerate(self._queue) if not each.work.is_detached), None)
        if index is None:
            if may_wait:
                self._queue[0].work.wait()
            return None
        first = self._queue.pop(index)
        self._queue = move_client_to_end(self._queue, first.client)
        if not first.work.run_slice():
            self._queue.append(first)
            return None
        first.runnable.is_paused = False
        return first

    def drop(self, request_id: str) -> None:
        """Cancel the work for a request; its answers pause no longer."""
        for paused in [each for each in self._queue if each.runnable.request_id == request_id]:
            self._queue.remove(paused)
            paused.work.cancel()
            paused.runnable.is_paused = False

    def release_locks(self, constraint: Constraint) -> None:
        """Make the work for a constraint release its locks."""
        for paused in self._queue:
            if paused.runnable.submission.request.constraint == constraint:
                paused.release_locks()
