"""Work for constraints that takes too long between two model calls, done in slices.

The answers that wait for it pause meanwhile; all others continue with their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from guided.engine.compiled_parts import shares_compiled
from guided.engine.runnable import Runnable
from guided.engine.sliced_work import RunningKernels, SlicedWork
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
        self.is_repeatable = is_repeatable
        self._make_work = partial(SlicedWork[Any], work, kernels)
        self._on_done: Callable[[Any], None] = on_done
        self.work: SlicedWork[Any] = self._make_work()

    @property
    def client(self) -> str:
        """The client whose answer it is."""
        return self.runnable.submission.client

    @property
    def constraint(self) -> Constraint:
        """The constraint that it works for."""
        return self.runnable.submission.request.constraint

    def restart(self) -> None:
        """Begin the work anew, without its locks."""
        self.work.cancel()
        self.work = self._make_work()

    def resume(self) -> None:
        """Continue the answer with the result of the work; raises what the work raised."""
        self._on_done(self.work.result())


class PausedAnswers:
    """The answers that pause; their clients take turns by slices."""

    def __init__(self) -> None:
        self._queue: list[PausedAnswer] = []
        self._had_turn = False
        """Whether the last slice was one of theirs."""

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, paused: PausedAnswer) -> None:
        """Pause an answer."""
        paused.runnable.is_paused = True
        self._queue.append(paused)

    def take_turn(self, *, is_compiling: bool) -> bool:
        """Return whether the next slice is theirs; they and compilation take turns by slices."""
        self._had_turn = bool(self._queue) and not (self._had_turn and is_compiling)
        return self._had_turn

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
        self._queue.sort(key=lambda each: each.client == first.client)
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

    def find_involved(self, constraint: Constraint) -> list[Constraint]:
        """Return a constraint, and those whose locks may be needed to release its locks.

        The others are those of answers whose work cannot be restarted, so that it has to be
        finished, and that have a compiled part in common with one found before.
        """
        found = [constraint]
        for one in found:  # which grows meanwhile
            for paused in self._queue:
                own = paused.constraint
                if not paused.is_repeatable and own not in found and shares_compiled(own, one):
                    found.append(own)
        return found

    def release_locks(self, constraints: Sequence[Constraint]) -> None:
        """Make the work for these constraints release its locks: restart it, or finish it.

        They are those of ``find_involved``, and no work but that of answers holds their locks.
        """
        unfinished: list[SlicedWork[Any]] = []
        for paused in self._queue:
            if not any(shares_compiled(paused.constraint, each) for each in constraints):
                continue
            if paused.is_repeatable:
                paused.restart()
            else:
                unfinished.append(paused.work)
        # A slice of each in turn: one of them may wait for a lock that another one holds.
        while unfinished := [work for work in unfinished if not work.run_slice()]:
            unfinished[0].wait()
