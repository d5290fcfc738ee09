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

from guided.engine.sliced_work import Kernels, SlicedWork
from guided.engine.submission import Submission
from guided.engine.turns import after_turn
from guided.spec import Constraint

if TYPE_CHECKING:
    from guided.constraint import Matcher
    from guided.engine.group import Group

__all__ = ["CompileQueue", "Start"]

Start: TypeAlias = Callable[[Constraint], "Matcher"]
"""Compiles a constraint and returns the position before its first token."""


class CompileQueue:
    """Clients take turns by slices, and so do the submissions of each client.

    So neither a long compilation nor many of them hold up what others want compiled.
    """

    def __init__(self, start: Start, kernels: Kernels | None = None) -> None:
        self._start = start
        self._kernels = kernels or Kernels()
        self._line: list[Submission] = []

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Submission]:
        return iter(tuple(self._line))

    def __contains__(self, request_id: object) -> bool:
        return any(submission.request_id == request_id for submission in self._line)

    def work_for(self, constraint: Constraint) -> SlicedWork[Matcher]:
        """Return the compilation of a constraint, shared by all submissions that wait for it."""
        # The compiler caches compiled constraints, but not those it is still compiling.
        for submission in self._line:
            if submission.request.constraint == constraint:
                return submission.matcher
        return SlicedWork(partial(self._start, constraint), self._kernels)

    def join(self, submission: Submission) -> None:
        """Queue a submission until its constraint is compiled."""
        self._line.append(submission)

    def join_again(self, submission: Submission, admit: Callable[[], Group]) -> None:
        """Queue a submission until it is admitted, where that takes long as well."""
        self._line.append(replace(submission, admitting=SlicedWork(admit, self._kernels)))

    def run_slice(self, *, is_alone: bool = True) -> list[Submission]:
        """Do a slice of work; remove and return the submissions whose work that finished.

        ``is_alone`` says that there is nothing else to do, so this may wait for kernels.
        """
        if not self._line:
            return []
        first = next((each for each in self._line if not each.work.is_away), None)
        if first is None:
            if is_alone:
                self._line[0].work.wait()
            return []
        # All submissions that wait for the same constraint move, and are admitted, together.
        work = first.work
        is_done = work.run_slice()
        mine = [each for each in self._line if each.work is work]
        others = [each for each in self._line if each.work is not work]
        # Submissions that are not done yet go to the end of the line.
        self._line = after_turn(others, first.client) + ([] if is_done else mine)
        return mine if is_done else []

    def leave(self, request_id: str) -> bool:
        """Give up a request, and return whether it was there."""
        for submission in self:
            if submission.request_id == request_id:
                self._line.remove(submission)
                # Other submissions may wait for the same compilation.
                if all(other.work is not submission.work for other in self._line):
                    submission.work.give_up()
                return True
        return False

    def let_go(self, constraint: Constraint) -> None:
        """Make the work for a constraint release its locks: restart what is unfinished."""
        anew: dict[SlicedWork[Matcher], SlicedWork[Matcher]] = {}
        for place, submission in enumerate(self._line):
            if submission.request.constraint != constraint:
                continue
            if submission.admitting is not None:
                # Inside a kernel it ends later, and then only releases what it has opened.
                submission.admitting.give_up()
                self._line[place] = replace(submission, admitting=None, at_end=ExitStack())
                continue
            work = submission.matcher
            if work not in anew:
                work.give_up()
                anew[work] = SlicedWork(partial(self._start, constraint), self._kernels)
            self._line[place] = replace(submission, matcher=anew[work])
