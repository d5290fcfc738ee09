"""Work for constraints that takes too long between two model calls, done in slices.

The answers that wait for it pause meanwhile; all others continue with their steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from guided.engine.runnable import Runnable
from guided.engine.sliced_work import Kernels, SlicedWork
from guided.engine.turns import after_turn
from guided.spec import Constraint

__all__ = ["Paused", "PausedAnswers"]

T = TypeVar("T")


class Paused:
    """An answer that pauses until its work is done."""

    def __init__(
        self,
        runnable: Runnable,
        work: Callable[[], T],
        then: Callable[[T], None],
        kernels: Kernels,
        *,
        is_repeatable: bool = True,
    ) -> None:
        """``then`` takes the result of ``work``, in the engine's thread.

        ``is_repeatable`` says that the work changes nothing in the answer and may be begun again.
        """
        self.runnable = runnable
        self._is_repeatable = is_repeatable
        self._begin = partial(SlicedWork[Any], work, kernels)
        self._then: Callable[[Any], None] = then
        self.work: SlicedWork[Any] = self._begin()

    @property
    def client(self) -> str:
        """The client whose answer it is."""
        return self.runnable.submission.client

    def release_locks(self) -> None:
        """Make the work release its locks: restart it, or do all of it."""
        if self._is_repeatable:
            self.work.give_up()
            self.work = self._begin()
        else:
            self.work.finish()

    def resume(self) -> None:
        """Continue the answer with the result of the work; raises what the work raised."""
        self._then(self.work.result())


class PausedAnswers:
    """The answers that pause; their clients take turns by slices."""

    def __init__(self) -> None:
        self._line: list[Paused] = []

    def __len__(self) -> int:
        return len(self._line)

    def put(self, paused: Paused) -> None:
        """Pause an answer."""
        paused.runnable.is_paused = True
        self._line.append(paused)

    def run_slice(self, *, is_alone: bool) -> Paused | None:
        """Do a slice of work; remove and return the answer that can continue after it.

        ``is_alone`` says that there is nothing else to do, so this may wait for kernels.
        """
        if not self._line:
            return None
        place = next((n for n, each in enumerate(self._line) if not each.work.is_away), None)
        if place is None:
            if is_alone:
                self._line[0].work.wait()
            return None
        first = self._line.pop(place)
        self._line = after_turn(self._line, first.client)
        if not first.work.run_slice():
            self._line.append(first)
            return None
        first.runnable.is_paused = False
        return first

    def drop(self, request_id: str) -> None:
        """Give up the work for a request."""
        for paused in [each for each in self._line if each.runnable.request_id == request_id]:
            self._line.remove(paused)
            paused.work.give_up()
            paused.runnable.is_paused = False

    def release_locks(self, constraint: Constraint) -> None:
        """Make the work for a constraint release its locks."""
        for paused in self._line:
            if paused.runnable.submission.request.constraint == constraint:
                paused.release_locks()
