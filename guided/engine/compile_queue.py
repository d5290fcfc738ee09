"""The requests whose constraints are being compiled, a slice of work before each step.

Compilation takes milliseconds to seconds. It runs between steps, because any Python that runs
during a forward pass would slow it down many times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from guided.engine.compiled_parts import shares_compiled
from guided.engine.sliced_work import RunningKernels, SlicedWork
from guided.engine.submission import Submission
from guided.spec import Constraint

if TYPE_CHECKING:
    from guided.constraint import Matcher
    from guided.engine.group import Group

__all__ = ["CompileQueue", "StartMatcher"]

StartMatcher: TypeAlias = Callable[[Constraint], "Matcher"]
"""Compiles a constraint and returns the position before its first token."""


class CompileQueue:
    """Clients take turns by slices, and so do the submissions of each client.

    So neither a long compilation nor many of them hold up what others want compiled::

        line     a1 a2 b1 a3 c1      a slice of a1
                 b1 c1 a2 a3 a1      a slice of b1
                 c1 a2 a3 a1 b1      and so on
    """

    def __init__(self, start: StartMatcher, kernels: RunningKernels | None = None) -> None:
        self._start = start
        self._kernels = kernels or RunningKernels()
        self._queue: list[Submission] = []

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Submission]:
        return iter(tuple(self._queue))

    def __contains__(self, request_id: object) -> bool:
        return any(submission.request_id == request_id for submission in self._queue)

    def work_for(self, constraint: Constraint) -> SlicedWork[Matcher]:
        """Return the compilation of a constraint, shared by all submissions that wait for it."""
        # The compiler caches compiled constraints, but not those it is still compiling.
        for submission in self._queue:
            if submission.request.constraint == constraint:
                return submission.matcher
        return SlicedWork(partial(self._start, constraint), self._kernels)

    def add(self, submission: Submission) -> None:
        """Queue a submission until its constraint is compiled."""
        self._queue.append(submission)

    def requeue_for_admission(
        self, submission: Submission, make_group: Callable[[], Group]
    ) -> None:
        """Queue a submission again, because making its group takes long as well."""
        self._queue.append(replace(submission, admitting=SlicedWork(make_group, self._kernels)))

    def run_slice(self, *, may_wait: bool = True) -> list[Submission]:
        """Do a slice of work; remove and return the submissions whose work that finished.

        ``may_wait`` lets it wait for a kernel, because the caller has nothing else to do.
        """
        if not self._queue:
            return []
        first = next((each for each in self._queue if not each.work.is_detached), None)
        if first is None:
            if may_wait:
                self._queue[0].work.wait()
            return []
        # All submissions that wait for the same constraint move, and are admitted, together.
        work = first.work
        is_done = work.run_slice()
        with_work = [each for each in self._queue if each.work is work]
        others = [each for each in self._queue if each.work is not work]
        # The client's submissions go to the end of the line, last those that are not done yet.
        others.sort(key=lambda each: each.client == first.client)
        self._queue = others + ([] if is_done else with_work)
        return with_work if is_done else []

    def remove(self, request_id: str) -> bool:
        """Remove a request and cancel its work; return whether it was there."""
        for submission in self:
            if submission.request_id == request_id:
                self._queue.remove(submission)
                # Other submissions may wait for the same compilation.
                if all(other.work is not submission.work for other in self._queue):
                    submission.work.cancel()
                return True
        return False

    def release_locks(self, constraint: Constraint) -> None:
        """Make the work for a constraint release its locks, by restarting what is unfinished."""
        restarted: dict[SlicedWork[Matcher], SlicedWork[Matcher]] = {}
        for index, submission in enumerate(self._queue):
            own = submission.request.constraint
            if not shares_compiled(own, constraint):
                continue
            if submission.admitting is not None:
                # Inside a kernel it ends later, and then only releases what it has opened.
                submission.admitting.cancel()
                self._queue[index] = replace(submission, admitting=None, at_end=ExitStack())
                continue
            work = submission.matcher
            if work not in restarted:
                work.cancel()
                restarted[work] = SlicedWork(partial(self._start, own), self._kernels)
            self._queue[index] = replace(submission, matcher=restarted[work])
