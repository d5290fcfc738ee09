"""The requests whose constraints are being compiled, a slice of work before each step.

Compilation takes milliseconds to seconds. It runs between steps, as any Python beside a forward
pass would slow it down many times.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from guided.engine.submission import Submission
from guided.runtime.fuel import resting
from guided.spec import Constraint

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["CompileQueue", "SlicedWork", "Start"]

Start: TypeAlias = Callable[[Constraint], "Matcher"]
"""Compiles a constraint and returns the position before its first token."""

T = TypeVar("T")

_SLICE = 5_000
"""Units of work, each about a microsecond."""


class _GivenUpError(BaseException):
    """Ends the work; derives from BaseException so that the work's own handlers do not catch it."""


class SlicedWork(Generic[T]):
    """Work that pauses wherever enough of it is counted (``guided.runtime.fuel``).

    It has a thread of its own, but for the sake of its stack alone: either the caller runs or the
    work does, never both. So nothing changes during a step, and no Python runs beside a model call.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        # Most work is done in one slice, and a hand-over takes longer than the locks themselves.
        # So the thread begins with the first slice, and nobody waits for it to say that it has.
        # Two locks hand the turn over: to the work when ``_go`` is released, back with ``_rested``.
        self._go = allocate_lock()
        self._rested = allocate_lock()
        self._go.acquire()
        self._rested.acquire()
        self._outcome: Future[T] = Future()
        self._is_begun = False
        self._is_given_up = False

    def run_slice(self) -> bool:
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
        """The result, once the work is done; raises what the work raised."""
        return self._outcome.result(timeout=0)

    def give_up(self) -> None:
        """End the work where it pauses."""
        self._is_given_up = True
        # A thread that has begun is woken once more, so that it ends and frees its stack.
        if self._is_begun:
            self.run_slice()

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
        if self._is_given_up:
            raise _GivenUpError


class CompileQueue:
    """Submissions take turns by slices, so long compilation does not hold up a short one."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._line: list[Submission] = []

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Submission]:
        return iter(tuple(self._line))

    def __contains__(self, request_id: object) -> bool:
        return any(submission.request_id == request_id for submission in self._line)

    def work_for(self, constraint: Constraint) -> SlicedWork[Matcher]:
        """The compilation of a constraint, shared with all who wait for the same one."""
        # The compiler caches what it compiled, but not what it is just compiling.
        for submission in self._line:
            if submission.request.constraint == constraint:
                return submission.matcher
        return SlicedWork(partial(self._start, constraint))

    def join(self, submission: Submission) -> None:
        """Wait until the constraint is compiled."""
        self._line.append(submission)

    def run_slice(self) -> list[Submission]:
        """Do a slice of compilation; remove and return those whose constraint is compiled then."""
        if not self._line:
            return []
        compiling = self._line[0].matcher
        # Everyone who waits for the same constraint moves, and is admitted, together.
        is_compiled = compiling.run_slice()
        mine = [each for each in self._line if each.matcher is compiling]
        others = [each for each in self._line if each.matcher is not compiling]
        # Those that are not done yet go to the end of the line.
        self._line = others if is_compiled else others + mine
        return mine if is_compiled else []

    def leave(self, request_id: str) -> bool:
        """Give a request up, and say whether it was there."""
        for submission in self:
            if submission.request_id == request_id:
                self._line.remove(submission)
                # Others may wait for the same compilation.
                if all(other.matcher is not submission.matcher for other in self._line):
                    submission.matcher.give_up()
                return True
        return False
