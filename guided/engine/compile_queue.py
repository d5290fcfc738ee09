"""The requests whose constraints are being compiled, a slice of work before each step.

Compilation takes milliseconds to seconds. It runs between steps, as any Python beside a forward
pass would slow it down many times.
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
    """Clients take turns by slices, and so do the submissions of each.

    So neither long compilation nor much of it holds up what others want compiled.
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
        """The compilation of a constraint, shared with all who wait for the same one."""
        # The compiler caches what it compiled, but not what it is just compiling.
        for submission in self._line:
            if submission.request.constraint == constraint:
                return submission.matcher
        return SlicedWork(partial(self._start, constraint), self._kernels)

    def join(self, submission: Submission) -> None:
        """Wait until the constraint is compiled."""
        self._line.append(submission)

    def join_again(self, submission: Submission, admit: Callable[[], Group]) -> None:
        """Wait until it is admitted, too, as that takes long."""
        self._line.append(replace(submission, admitting=SlicedWork(admit, self._kernels)))

    def run_slice(self, *, is_alone: bool = True) -> list[Submission]:
        """Do a slice of work; remove and return those for which it is done then.

        ``is_alone`` says that there is nothing else to do, so kernels are waited for.
        """
        if not self._line:
            return []
        first = next((each for each in self._line if not each.work.is_away), None)
        if first is None:
            if is_alone:
                self._line[0].work.wait()
            return []
        # Everyone who waits for the same constraint moves, and is admitted, together.
        work = first.work
        is_done = work.run_slice()
        mine = [each for each in self._line if each.work is work]
        others = [each for each in self._line if each.work is not work]
        # Those that are not done yet go to the end of the line.
        self._line = after_turn(others, first.client) + ([] if is_done else mine)
        return mine if is_done else []

    def leave(self, request_id: str) -> bool:
        """Give a request up, and say whether it was there."""
        for submission in self:
            if submission.request_id == request_id:
                self._line.remove(submission)
                # Others may wait for the same compilation.
                if all(other.work is not submission.work for other in self._line):
                    submission.work.give_up()
                return True
        return False

    def let_go(self, constraint: Constraint) -> None:
        """Have work for a constraint hold no locks: what is done of it is begun anew."""
        anew: dict[SlicedWork[Matcher], SlicedWork[Matcher]] = {}
        for place, submission in enumerate(self._line):
            if submission.request.constraint != constraint:
                continue
            if submission.admitting is not None:
                # In a kernel it ends later, and then gives back what it has opened, and no more.
                submission.admitting.give_up()
                self._line[place] = replace(submission, admitting=None, at_end=ExitStack())
                continue
            work = submission.matcher
            if work not in anew:
                work.give_up()
                anew[work] = SlicedWork(partial(self._start, constraint), self._kernels)
            self._line[place] = replace(submission, matcher=anew[work])
