"""Runs work on constraints in the engine process: from messages to the workbench, and back."""

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
    FromEngine,
    Inspect,
    MaskRead,
    TextRead,
)

if TYPE_CHECKING:
    from guided.engine.workbench import FinishedTask, Task, Workbench

__all__ = ["HasWorkbench", "Inspections", "reply_of_finding", "task_of"]


class HasWorkbench(Protocol):
    """An engine whose constraints can be worked on."""

    @property
    def workbench(self) -> Workbench: ...


class Inspections:
    """The inspections of one engine process."""

    def __init__(self, engine: HasWorkbench) -> None:
        self._engine = engine
        self._bench: Workbench | None = None
        """Fetched at the first inspection."""

    @property
    def has_work(self) -> bool:
        """Whether a slice would do anything."""
        return self._bench is not None and self._bench.has_work

    def begin(self, asked: Inspect) -> None:
        """Queue the work, done between steps; its constraint is read when it begins."""
        self._bench = self._engine.workbench
        self._bench.submit(asked.request_id, lambda: task_of(asked), asked.deadline, asked.client)

    def cancel(self, request_id: str) -> None:
        """Forget an inspection; unknown ids are fine."""
        if self._bench is not None:
            self._bench.cancel(request_id)

    def run_slice(self, *, is_alone: bool) -> Iterator[FromEngine]:
        """Do one more slice of work, and yield the messages for the server.

        ``is_alone`` says that the engine has nothing else to do.
        """
        if self._bench is not None:
            yield from map(_message, self._bench.run_slice(is_alone=is_alone))


def task_of(asked: Inspect) -> Task:
    """Return the task of a message; raises ``GuidedError`` for an invalid constraint."""
    # Imported here, so that a process ties its life to its server's before it loads a compiler.
    from guided.engine.workbench import Check, Compile, Draw, ReadMask, ReadText

    constraint = decode_constraint(pb.Constraint.FromString(asked.constraint))
    match asked.what:
        case "check":
            return Check(constraint)
        case "compile":
            return Compile(constraint)
        case "read":
            return ReadText(constraint, asked.text.encode())
        case "mask":
            return ReadMask(constraint, tuple(map(TokenId, asked.tokens)))
        case "draw":
            return Draw(constraint)


def _message(ended: FinishedTask) -> FromEngine:
    outcome = ended.outcome
    if isinstance(outcome, GuidedError):
        return Failed(ended.request_id, record_error(outcome))
    return reply_of_finding(ended.request_id, outcome)


def reply_of_finding(request_id: str, finding: Finding) -> Checked | Drawn | MaskRead | TextRead:
    """Return the message that reports a finding."""
    match finding:
        case TextReport():
            return TextRead(request_id, finding)
        case MaskReport():
            return MaskRead(request_id, finding)
        case Automaton():
            return Drawn(request_id, finding)
    return Checked(request_id, finding)
