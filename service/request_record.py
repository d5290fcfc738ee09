"""Records what is known of a request while it is served, for its log line and its spans.

Each part of the server notes what it learns for the request of the running task, so nothing needs
to be passed along. In a task without a record, nothing is noted::

    recorded ─ note_name ─ note_admitted ─ note_answered ─ end
                         │               └ note_failure ──┤
                         └ note_repeat ───────────────────┘
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from structlog.contextvars import bind_contextvars, bound_contextvars

from guided.errors import GuidedError, IncompleteAnswerError
from guided.spec import GenerationResult, Timing, Usage

__all__ = [
    "OK",
    "Moment",
    "RequestRecord",
    "current_record",
    "current_request_id",
    "note_admitted",
    "note_answered",
    "note_client",
    "note_failure",
    "note_name",
    "note_repeat",
    "recorded",
]

OK: Final = "OK"

CANCELLED: Final = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time by two clocks."""

    monotonic: float = field(default_factory=time.monotonic)
    """Seconds of the monotonic clock."""
    nanoseconds: int = field(default_factory=time.time_ns)
    """Since 1970."""

    def at(self, monotonic: float) -> int:
        """Return the nanoseconds since 1970 of another moment, given by the monotonic clock."""
        return self.nanoseconds + round(1e9 * (monotonic - self.monotonic))


@dataclass(slots=True, eq=False)
class RequestRecord:
    """One request, from its arrival to its end; a batch has another record for the whole call."""

    service: str
    method: str
    """Names of the service and method called."""
    peer: str
    """Address of the caller, as the transport reports it."""
    operation: str
    """The operation, in OpenTelemetry's terms."""
    constraint: str | None = None
    """Kind of the constraint, ``none`` without one; ``None`` for a whole batch."""
    call_id: str | None = None
    """For a request in a batch, the id of the whole call."""
    index: int | None = None
    """For a request in a batch, its index there."""
    client: str | None = None
    """Name of the caller, if it is known."""
    route: str | None = None
    """The path of a call over HTTP; ``None`` for one over gRPC."""
    trace_id: str | None = None
    request_id: str = field(default_factory=lambda: uuid4().hex)
    """The caller's name for it, once known and if given."""
    is_repeat: bool = False
    """Whether its answer is an earlier call's, whose record has the cost."""
    began: Moment = field(default_factory=Moment)
    admitted: float | None = None
    """When it got a place; this and the following are seconds of the monotonic clock."""
    answered: float | None = None
    ended: float | None = None
    status: str = OK
    """Name of the status that the caller gets."""
    error: str | None = None
    """Kind of the error, if there was one."""
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    timing: Timing | None = None
    engine_seconds: float | None = None
    """Seconds from when the engine took it to its last token."""

    @property
    def event(self) -> str:
        """The name of its log line: a ``request``, or a whole ``batch`` of them."""
        return "batch" if self.operation == "batch" else "request"

    @property
    def seconds(self) -> float:
        """Seconds from its arrival to its end."""
        assert self.ended is not None, "the request has not ended"
        return self.ended - self.began.monotonic

    @property
    def queue_seconds(self) -> float | None:
        """Seconds until it got a place; ``None`` if it never did."""
        return None if self.admitted is None else self.admitted - self.began.monotonic


_current: ContextVar[RequestRecord | None] = ContextVar("request_record", default=None)


def current_record() -> RequestRecord | None:
    """Return the running task's record, if it has one."""
    return _current.get()


def current_request_id() -> str | None:
    """Return the id of the running task's request, if it has one."""
    record = _current.get()
    return None if record is None else record.request_id


@contextmanager
def recorded(record: RequestRecord) -> Iterator[RequestRecord]:
    """Assign a record to the running task until the block ends, however it ends.

    Lines logged meanwhile, by any part of the server, have the request's id.
    """
    token = _current.set(record)
    ids = {"request_id": record.request_id, "trace_id": record.trace_id}
    try:
        with bound_contextvars(**{name: told for name, told in ids.items() if told}):
            yield record
    except BaseException:
        if record.status == OK:  # nobody noted a failure, so its caller left
            record.status = CANCELLED
        raise
    finally:
        record.ended = time.monotonic()
        _current.reset(token)


def note_name(name: str) -> None:
    """Note the request's name, which all further log lines have."""
    if (record := _current.get()) is not None:
        record.request_id = name
        bind_contextvars(request_id=name)


def note_repeat() -> None:
    """Note that the request got the answer of an earlier call."""
    if (record := _current.get()) is not None:
        record.is_repeat = True


def note_admitted() -> None:
    """Note that the request got a place."""
    if (record := _open_record()) is not None:
        record.admitted = time.monotonic()


def note_client(name: str) -> None:
    """Note the name of the request's caller."""
    if (record := _current.get()) is not None:
        record.client = name


def note_answered(result: GenerationResult) -> None:
    """Note the request's answer."""
    if (record := _open_record()) is not None:
        record.answered = time.monotonic()
        record.usage, record.timing = result.usage, result.timing
        record.engine_seconds = result.seconds
        answers = result.candidates or (result,)
        record.finish_reasons = tuple(answer.finish_reason.value for answer in answers)


def note_failure(error: GuidedError, status: str) -> None:
    """Note that the request failed, and the status that its caller gets."""
    if (record := _current.get()) is not None:
        record.status, record.error = status, error.code
        if isinstance(error, IncompleteAnswerError):
            record.usage = error.usage
            record.finish_reasons = (error.finish_reason.value,)


def _open_record() -> RequestRecord | None:
    """Return the running task's record, unless it has ended: others may wait for its answer."""
    record = _current.get()
    return None if record is None or record.ended is not None else record
