"""Tasks on constraints that no answer waits for: checks, compilation ahead of use, inspection.

They are done as the constraints of requests are compiled: in slices, between steps. Each task
except that of a mask has a recogniser of its own, so it neither fills up nor locks the recognisers
that answers use.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from guided.constraint.automaton import automaton_of
from guided.constraint.mask_reading import describe_mask
from guided.constraint.reading import read_text
from guided.constraint.report import MAX_REPORT_BYTES, check_structure
from guided.engine.compile_queue import StartMatcher
from guided.engine.compiled_parts import shares_compiled
from guided.engine.request_isolation import as_guided_error, is_request_error
from guided.engine.sliced_work import RunningKernels, SlicedWork
from guided.errors import DeadlineExceededError, GuidedError
from guided.masks.vocabulary import Vocabulary
from guided.spec import Constraint, Structure, TokenId
from guided.spec.findings import Finding, TaskKind

__all__ = ["ConstraintTasks", "FinishedTask", "Task"]

_MAX_STARTED = 4
"""The most tasks that have started; each may hold tens of megabytes."""
_MAX_STARTED_OF_NEW_CLIENTS = 8
"""The most tasks that have started, where a client that has none of them starts its first."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be found out about a constraint."""

    kind: TaskKind
    constraint: Structure
    text: bytes = b""
    """The text to read, where one is read."""
    tokens: tuple[TokenId, ...] = ()
    """Tokens of an answer after which the mask is described."""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """The end of one task."""

    request_id: str
    outcome: Finding | GuidedError


def _most_started(of_client: int) -> int:
    """Return at how many started tasks, of all clients, a client may start no further one.

    ``of_client`` is how many of them are its own.
    """
    return _MAX_STARTED if of_client else _MAX_STARTED_OF_NEW_CLIENTS


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A task in the queue."""

    request_id: str
    task: Callable[[], Task]
    reads: list[Structure]
    """The constraint of answers that it reads, once it has begun; empty where it reads none."""
    work: SlicedWork[Finding]
    deadline: float | None
    client: str


class ConstraintTasks:
    """The tasks under way; clients take turns by slices, and so do the tasks of each client.

    For use from the thread that steps the engine.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        start: StartMatcher,
        clock: Callable[[], float] = time.monotonic,
        kernels: RunningKernels | None = None,
    ) -> None:
        """``start`` compiles a constraint for ``vocabulary``, where requests will find it.

        ``clock`` is that of deadlines, in seconds. ``kernels`` are those that run beside the
        engine, whatever they run for.
        """
        self._vocabulary = vocabulary
        self._start = start
        self._now = clock
        self._kernels = kernels or RunningKernels()
        self._queue: list[_Job] = []

    @property
    def has_work(self) -> bool:
        """Whether a slice would do anything."""
        return bool(self._queue)

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
        self._queue.append(self._make_job(request_id, task, deadline, client))

    def cancel(self, request_id: str) -> None:
        """Forget a task; it gets no end. Ignores unknown ids."""
        for job in [job for job in self._queue if job.request_id == request_id]:
            self._queue.remove(job)
            job.work.cancel()

    def release_locks(self, constraint: Constraint) -> None:
        """Make the tasks that read a constraint of answers release its locks: restart them."""
        for index, job in enumerate(self._queue):
            if any(shares_compiled(each, constraint) for each in job.reads):
                job.work.cancel()
                self._queue[index] = self._make_job(
                    job.request_id, job.task, job.deadline, job.client
                )

    def run_slice(self, *, may_wait: bool = True) -> list[FinishedTask]:
        """Do one more slice of the task whose turn it is, and return those that ended.

        ``may_wait`` lets it wait for a kernel, because the caller has nothing else to do.
        """
        finished = [self._expire(job) for job in tuple(self._queue) if self._is_late(job)]
        if self._queue:
            job = self._next()
            if may_wait:
                job.work.wait()
            self._queue.remove(job)
            self._queue.sort(key=lambda each: each.client == job.client)
            if job.work.run_slice():
                finished.append(self._finish(job))
            else:
                self._queue.append(job)
        return finished

    def _next(self) -> _Job:
        """Return the first job that has started or may start, and that a slice would advance.

        If all of these are in kernels (``is_detached``), the first of them: the caller may wait for
        its kernel. There is always one, unless the queue is empty: where none has started, the
        first may.
        """
        started = Counter(job.client for job in self._queue if job.work.has_started)
        candidates = (
            job
            for job in self._queue
            if job.work.has_started or started.total() < _most_started(started[job.client])
        )
        first = next(candidates)
        if not first.work.is_detached:
            return first
        return next((job for job in candidates if not job.work.is_detached), first)

    def _make_job(
        self, request_id: str, task: Callable[[], Task], deadline: float | None, client: str
    ) -> _Job:
        reads: list[Structure] = []
        work = SlicedWork[Finding](partial(self._run, task, reads), self._kernels)
        return _Job(request_id, task, reads, work, deadline, client)

    def _run(self, make: Callable[[], Task], reads: list[Structure]) -> Finding:
        """Make a task and do it; both are parts of the work that is done in slices.

        ``reads`` gets the constraint of answers that it reads.
        """
        task = make()
        constraint = task.constraint
        match task.kind:
            case "read":
                return read_text(constraint, task.text)
            case "mask":
                # In the cache of answers, which has most masks: the report is about theirs.
                reads.append(constraint)
                return describe_mask(self._start(constraint), task.tokens, self._vocabulary)
            case "draw":
                return automaton_of(constraint)
        found = check_structure(constraint, self._vocabulary.missing_bytes, MAX_REPORT_BYTES)
        if task.kind == "compile":
            self._start(constraint)
        return found

    def _is_late(self, job: _Job) -> bool:
        return job.deadline is not None and job.deadline < self._now()

    def _expire(self, job: _Job) -> FinishedTask:
        """Cancel a job whose deadline has passed, and return its error."""
        self._queue.remove(job)
        job.work.cancel()
        return FinishedTask(
            job.request_id,
            DeadlineExceededError(
                "the deadline came before the constraint was worked out", hint="allow more time"
            ),
        )

    def _finish(self, job: _Job) -> FinishedTask:
        try:
            return FinishedTask(job.request_id, job.work.result())
        except BaseException as fault:
            if not is_request_error(fault):
                raise
            return FinishedTask(job.request_id, as_guided_error(job.request_id, fault))
