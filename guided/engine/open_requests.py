"""The requests that are under way, and how each of them ends."""

from __future__ import annotations

from collections.abc import Sequence

from guided.engine.compile_queue import CompileQueue
from guided.engine.constraint_tasks import ConstraintTasks
from guided.engine.counters import EngineCounters
from guided.engine.group import Group
from guided.engine.paused_answers import PausedAnswers
from guided.engine.request_isolation import RequestIsolation
from guided.engine.results import Results
from guided.engine.runnable import Runnable
from guided.engine.scheduler import Scheduler
from guided.engine.step_deadline import TakesLongError, without_waiting
from guided.engine.submission import ServiceOrder
from guided.errors import GuidedError
from guided.spec import Constraint, Usage

__all__ = ["OpenRequests"]


class OpenRequests:
    """Requests from their submission until their results are taken.

    Several parts of the engine hold something of a request: the compile queue, the scheduler, the
    paused answers, the results. A request ends here, so that it leaves all of them, however it
    ends, and is counted once.
    """

    def __init__(
        self,
        compiling: CompileQueue,
        constraint_tasks: ConstraintTasks,
        scheduler: Scheduler,
        paused: PausedAnswers,
        results: Results,
        counters: EngineCounters,
    ) -> None:
        self._groups: dict[str, Group] = {}
        self._compiling = compiling
        self._constraint_tasks = constraint_tasks
        self._scheduler = scheduler
        self._paused = paused
        self._results = results
        self._counters = counters

    def __len__(self) -> int:
        """The number of requests without an answer; untaken results do not count."""
        return len(self._compiling) + len(self._groups)

    def __contains__(self, request_id: object) -> bool:
        """Whether an id is in use, even if only by an untaken result."""
        return any(request_id in known for known in (self._groups, self._compiling, self._results))

    def is_answering(self, request_id: str) -> bool:
        """Whether a request has been admitted and has not ended."""
        return request_id in self._groups

    def group(self, request_id: str) -> Group:
        """Return the answers of a request that has been admitted."""
        return self._groups[request_id]

    def usages(self) -> list[Usage]:
        """Return the usage of each admitted request so far."""
        return [group.usage() for group in self._groups.values()]

    def register(self, group: Group) -> None:
        """Pass a new group to the scheduler, or hand it out if it needs no model call."""
        if group.is_finished:
            try:
                self._finish(group)
            except BaseException:
                # The caller gets the error, and expects nothing else of the request.
                self._results.forget(group.request_id)
                raise
        else:
            self._groups[group.request_id] = group
            self._scheduler.enqueue(group.first)

    def hand_out(self, group: Group) -> None:
        """Hand out the result of a finished group, or the new part of its text."""
        if group.is_finished:
            self._finish(group)
        else:
            self._results.stream(group)

    def hand_out_resumed(self, runnable: Runnable) -> None:
        """Hand out what is new in an answer that was paused until now."""
        group = self._groups[runnable.request_id]
        group.end_call()
        self.hand_out(group)

    def cancel(self, request_id: str) -> None:
        """Forget a request and free its memory; ignores unknown ids."""
        # It may have ended in a step whose results were not taken yet.
        self._results.forget(request_id)
        used = self._drop(request_id)
        if used is not None:
            self._counters.count_cancelled(used)

    def isolate(self, request_id: str) -> RequestIsolation:
        """Return a context for work of one request, which an error in it ends."""
        return RequestIsolation(request_id, self._fail)

    def end_late(self, moment: float) -> Sequence[ServiceOrder]:
        """End the requests that would be late: closed if the answer has begun, else refused.

        ``moment`` is when the next model call, and what follows it, would be done. Returns the
        orders of the requests that ended.
        """
        # A request that is still compiling has no group yet.
        compiling = [each for each in self._compiling if each.order.is_late(moment)]
        groups = [group for group in self._groups.values() if group.order.is_late(moment)]
        for submission in compiling:
            with self.isolate(submission.request_id):
                submission.order.check(moment)  # raises, as it is late: that ends the request
        for group in groups:
            with self.isolate(group.request_id):
                self._close(group, moment)
        return [each.order for each in compiling] + [group.order for group in groups]

    def _close(self, group: Group, moment: float) -> None:
        """End a group by its shortest completion; raise if the model chose nothing of it yet."""
        self._paused.drop(group.request_id)
        # The completion alone would be no answer.
        if not group.num_chosen:
            group.order.check(moment)
        self._scheduler.drop(group.request_id)
        try:
            with without_waiting():
                group.close_for_deadline()
        except TakesLongError:
            # Unfinished work holds a lock that the completion needs, and would never release it.
            self._release_locks(group.submission.request.constraint)
            group.close_for_deadline()
        self._finish(group)

    def _release_locks(self, constraint: Constraint) -> None:
        """Make all unfinished work for a constraint, or for a part of it, release its locks."""
        constraints = self._paused.find_involved(constraint)
        for each in constraints:
            self._constraint_tasks.release_locks(each)
            self._compiling.release_locks(each)
        # Answers last: what cannot be restarted is finished, and may need a lock of the others.
        self._paused.release_locks(constraints)

    def _finish(self, group: Group) -> None:
        """End a finished group: its result is ready to be taken, and what it holds is released."""
        group.clock.record_end()
        result = self._results.finish(group)
        # After the result: if that raises, the group still has to report what the request used.
        self._groups.pop(group.request_id, None)
        group.submission.end()
        self._counters.count_answered(group.clock, result)

    def _drop(self, request_id: str) -> Usage | None:
        """Remove a request wherever it is; return its usage, or ``None`` for an unknown one."""
        self._paused.drop(request_id)
        self._scheduler.drop(request_id)
        if group := self._groups.pop(request_id, None):
            used = group.usage()
            group.submission.end()
            return used
        return Usage() if self._compiling.remove(request_id) else None

    def _fail(self, request_id: str, error: GuidedError) -> None:
        """End a request with an error, release what it holds, and count its usage."""
        used = self._drop(request_id)
        # An unknown one was compiled just now and refused by admission.
        if used is None:
            self._counters.count_refused()
        else:
            self._counters.count_failed(used)
        self._results.fail(request_id, error)
