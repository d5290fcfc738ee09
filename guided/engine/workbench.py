"""Work on constraints that no answer waits for: checks, compilation ahead of use, inspection.

It is done as the constraints of requests are compiled: in slices, between steps. Each task except
that of a mask has a recogniser of its own, so it neither fills up nor locks the recognisers that
answers use.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from guided.constraint.automaton import automaton_of
from guided.constraint.mask_reading import read_mask
from guided.constraint.reading import read_text
from guided.constraint.report import checked, shortened
from guided.engine.compile_queue import Start
from guided.engine.isolation import error_for, is_of_request
from guided.engine.sliced_work import Kernels, SlicedWork
from guided.engine.turns import after_turn
from guided.errors import DeadlineExceededError, GuidedError
from guided.masks.vocabulary import Vocabulary
from guided.spec import Structure, TokenId
from guided.spec.findings import Finding

__all__ = [
    "Check",
    "Compile",
    "Draw",
    "FinishedTask",
    "ReadMask",
    "ReadText",
    "Task",
    "Workbench",
]

_AT_ONCE = 4
"""Tasks that take turns; each may hold tens of megabytes, and the others have not begun."""
_AT_MOST = 8
"""The most tasks, where each client with none under way may begin one."""


@dataclass(frozen=True, slots=True)
class Check:
    """Report how a constraint would be enforced on answers."""

    constraint: Structure


@dataclass(frozen=True, slots=True)
class Compile:
    """The same, and compile it for later requests."""

    constraint: Structure


@dataclass(frozen=True, slots=True)
class ReadText:
    """Report where a text leaves a constraint."""

    constraint: Structure
    text: bytes


@dataclass(frozen=True, slots=True)
class ReadMask:
    """Report which tokens may follow the given tokens of an answer."""

    constraint: Structure
    tokens: tuple[TokenId, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """Draw the automaton of a constraint."""

    constraint: Structure


Task: TypeAlias = Check | Compile | ReadText | ReadMask | Draw


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """The end of one task."""

    request_id: str
    outcome: Finding | GuidedError


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    request_id: str
    work: SlicedWork[Finding]
    deadline: float | None
    client: str


class Workbench:
    """Clients take turns by slices, and so do the tasks of each client.

    For use from the thread that steps the engine.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        start: Start,
        clock: Callable[[], float] = time.monotonic,
        kernels: Kernels | None = None,
    ) -> None:
        """``start`` compiles a constraint where requests will find it.

        ``kernels`` are those that run beside the engine, whatever they run for.
        """
        self._vocabulary = vocabulary
        self._start = start
        self._now = clock
        self._kernels = kernels or Kernels()
        self._line: list[_Job] = []

    @property
    def has_work(self) -> bool:
        """Whether a slice would do anything."""
        return bool(self._line)

    def submit(
        self,
        request_id: str,
        task: Callable[[], Task],
        deadline: float | None = None,
        client: str = "",
    ) -> None:
        """Take a task of a client; ``task`` makes it when it begins.

        ``deadline`` is a moment of the clock.
        """
        work = SlicedWork[Finding](partial(self._do, task), self._kernels)
        self._line.append(_Job(request_id, work, deadline, client))

    def cancel(self, request_id: str) -> None:
        """Forget a task; it gets no end. Ignores unknown ids."""
        for job in [job for job in self._line if job.request_id == request_id]:
            self._line.remove(job)
            job.work.give_up()

    def run_slice(self, *, is_alone: bool = True) -> list[FinishedTask]:
        """Do one more slice of the task whose turn it is, and return those that ended.

        ``is_alone`` says that there is nothing else to do, so this may wait for kernels.
        """
        finished = [self._late(job) for job in tuple(self._line) if self._is_late(job)]
        if self._line:
            job = self._next()
            if is_alone:
                job.work.wait()
            self._line.remove(job)
            self._line = after_turn(self._line, job.client)
            if job.work.run_slice():
                finished.append(self._finished(job))
            else:
                self._line.append(job)
        return finished

    def _next(self) -> _Job:
        """Return the first job in line that has begun or may begin."""
        begun = Counter(job.client for job in self._line if job.work.is_begun)
        candidates = (
            job
            for job in self._line
            if job.work.is_begun or begun.total() < (_AT_ONCE if begun[job.client] else _AT_MOST)
        )
        first = next(candidates)
        if not first.work.is_away:
            return first
        return next((job for job in candidates if not job.work.is_away), first)

    def _do(self, make: Callable[[], Task]) -> Finding:
        """Make a task and do it; all of this, including ``make``, is the work that is sliced."""
        task = make()
        match task:
            case ReadText(constraint, text):
                return read_text(constraint, text)
            case ReadMask(constraint, tokens):
                # In the cache of answers, which has most masks: the report is about theirs.
                return read_mask(self._start(constraint), tokens, self._vocabulary)
            case Draw(constraint):
                return automaton_of(constraint)
        found = shortened(checked(task.constraint, missing=self._vocabulary.missing_bytes))
        if isinstance(task, Compile):
            self._start(task.constraint)
        return found

    def _is_late(self, job: _Job) -> bool:
        return job.deadline is not None and job.deadline < self._now()

    def _late(self, job: _Job) -> FinishedTask:
        """Give up a job whose deadline has passed."""
        self._line.remove(job)
        job.work.give_up()
        return FinishedTask(
            job.request_id,
            DeadlineExceededError(
                "the deadline came before the constraint was worked out", hint="allow more time"
            ),
        )

    def _finished(self, job: _Job) -> FinishedTask:
        try:
            return FinishedTask(job.request_id, job.work.result())
        except BaseException as fault:
            if not is_of_request(fault):
                raise
            return FinishedTask(job.request_id, error_for(job.request_id, fault))
