"""Runs constraint tasks in the engine process: from messages to tasks, and from results back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from guided.error_record import record_error
from guided.errors import GuidedError
from guided.spec import TextReport, TokenId
from guided.spec.findings import Automaton, Finding, MaskReport
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_constraint
from guided_service.messages import (
    Checked,
    Drawn,
    Failed,
    Found,
    FromEngine,
    Inspect,
    MaskRead,
    TextRead,
)

if TYPE_CHECKING:
    from guided.engine.constraint_tasks import ConstraintTasks, FinishedTask, Task

__all__ = ["HasConstraintTasks", "Inspections", "reply_of_finding", "task_of"]


class HasConstraintTasks(Protocol):
    """An engine whose constraints can be worked on."""

    @property
    def constraint_tasks(self) -> ConstraintTasks: ...


class Inspections:
    """The inspections of one engine process."""

    def __init__(self, engine: HasConstraintTasks) -> None:
        self._engine = engine
        self._tasks: ConstraintTasks | None = None
        """Fetched at the first inspection."""

    @property
    def has_work(self) -> bool:
        """Whether a slice would do anything."""
        return self._tasks is not None and self._tasks.has_work

    def begin(self, asked: Inspect) -> None:
        """Queue the work, done between steps; its constraint is read when it begins."""
        self._tasks = self._engine.constraint_tasks
        self._tasks.submit(asked.request_id, lambda: task_of(asked), asked.deadline, asked.client)

    def cancel(self, request_id: str) -> None:
        """Forget an inspection; unknown ids are fine."""
        if self._tasks is not None:
            self._tasks.cancel(request_id)

    def run_slice(self, *, may_wait: bool) -> Iterator[FromEngine]:
        """Do one more slice of work, and yield the messages for the server.

        ``may_wait`` says that the engine has nothing else to do.
        """
        if self._tasks is not None:
            yield from map(_message, self._tasks.run_slice(may_wait=may_wait))


def task_of(asked: Inspect) -> Task:
    """Return the task of a message; raises ``GuidedError`` for an invalid constraint."""
    # Imported here, so that a process ties its life to its server's before it loads a compiler.
    from guided.engine.constraint_tasks import Task

    return Task(
        asked.what,
        decode_constraint(pb.Constraint.FromString(asked.constraint)),
        asked.text.encode(),
        tuple(map(TokenId, asked.tokens)),
    )


def _message(ended: FinishedTask) -> FromEngine:
    outcome = ended.outcome
    if isinstance(outcome, GuidedError):
        return Failed(ended.request_id, record_error(outcome))
    return reply_of_finding(ended.request_id, outcome)


def reply_of_finding(request_id: str, finding: Finding) -> Found:
    """Return the message that reports a finding."""
    match finding:
        case TextReport():
            return TextRead(request_id, finding)
        case MaskReport():
            return MaskRead(request_id, finding)
        case Automaton():
            return Drawn(request_id, finding)
    return Checked(request_id, finding)
