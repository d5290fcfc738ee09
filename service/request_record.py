"""What is known of one request while it is served, for its line in the log and for its spans.

Whoever learns something notes it for the request that the running task is about, so nothing has to
be handed through. A task without a record notes nothing::

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
    """Seconds of the clock that never goes back."""
    nanoseconds: int = field(default_factory=time.time_ns)
    """Since 1970."""

    def at(self, monotonic: float) -> int:
        """The nanoseconds since 1970 of another moment, which the first clock told."""
        return self.nanoseconds + round(1e9 * (monotonic - self.monotonic))


@dataclass(slots=True, eq=False)
class RequestRecord:
    """One request, from its arrival to its end; of a batch there is one more for the whole call."""

    service: str
    method: str
    """Names of what was called."""
    peer: str
    """Address of the caller, as the transport tells it."""
    operation: str
    """What OpenTelemetry calls what is asked for."""
    constraint: str | None = None
    """Kind of the constraint, ``none`` where there is none; ``None`` for a whole batch."""
    call_id: str | None = None
    """Of a request in a batch, the id of the whole call."""
    index: int | None = None
    """Of a request in a batch, its place there."""
    client: str | None = None
    """Name of the caller, where one is known."""
    route: str | None = None
    """The path of a call over HTTP; ``None`` for one over gRPC."""
    trace_id: str | None = None
    request_id: str = field(default_factory=lambda: uuid4().hex)
    """The name that the caller gave it, once that is known and if there is one."""
    is_repeat: bool = False
    """Whether its answer is that of an earlier call, whose record has what it cost."""
    began: Moment = field(default_factory=Moment)
    admitted: float | None = None
    """When it had a place; this and what follows are seconds of the monotonic clock."""
    answered: float | None = None
    ended: float | None = None
    status: str = OK
    """Name of the status that the caller is told."""
    error: str | None = None
    """Kind of the error, if there was one."""
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    timing: Timing | None = None
    engine_seconds: float | None = None
    """From the moment the engine took it to its last token."""

    @property
    def event(self) -> str:
        """What is logged when it ends: a ``request``, or a whole ``batch`` of them."""
        return "batch" if self.operation == "batch" else "request"

    @property
    def seconds(self) -> float:
        """From its arrival to its end."""
        assert self.ended is not None, "the request has not ended"
        return self.ended - self.began.monotonic

    @property
    def queue_seconds(self) -> float | None:
        """Until it had a place; ``None`` where it never had one."""
        return None if self.admitted is None else self.admitted - self.began.monotonic


_current: ContextVar[RequestRecord | None] = ContextVar("request_record", default=None)


def current_request_id() -> str | None:
    """The id of the request that the running task is about, if it is about one."""
    record = _current.get()
    return None if record is None else record.request_id


@contextmanager
def recorded(record: RequestRecord) -> Iterator[RequestRecord]:
    """Let the running task be about a request until it ends, however it does.

    What is logged meanwhile, by any part of the server, has the request's id.
    """
    token = _current.set(record)
    ids = {"request_id": record.request_id, "trace_id": record.trace_id}
    try:
        with bound_contextvars(**{name: told for name, told in ids.items() if told}):
            yield record
    except BaseException:
        if record.status == OK:  # nobody noted a failure: its caller went away
            record.status = CANCELLED
        raise
    finally:
        record.ended = time.monotonic()
        _current.reset(token)


def note_name(name: str) -> None:
    """The request has a name, by which all that is logged from now on tells it."""
    if (record := _current.get()) is not None:
        record.request_id = name
        bind_contextvars(request_id=name)


def note_repeat() -> None:
    """The request has the answer of an earlier call."""
    if (record := _current.get()) is not None:
        record.is_repeat = True


def note_admitted() -> None:
    """The request has a place."""
    if (record := _open_record()) is not None:
        record.admitted = time.monotonic()


def note_client(name: str) -> None:
    """The request comes from a caller who is known by a name."""
    if (record := _current.get()) is not None:
        record.client = name


def note_answered(result: GenerationResult) -> None:
    """The request has its answer."""
    if (record := _open_record()) is not None:
        record.answered = time.monotonic()
        record.usage, record.timing = result.usage, result.timing
        record.engine_seconds = result.seconds
        answers = result.candidates or (result,)
        record.finish_reasons = tuple(answer.finish_reason.value for answer in answers)


def note_failure(error: GuidedError, status: str) -> None:
    """The request failed, and its caller is told this status."""
    if (record := _current.get()) is not None:
        record.status, record.error = status, error.code
        if isinstance(error, IncompleteAnswerError):
            record.usage = error.usage
            record.finish_reasons = (error.finish_reason.value,)


def _open_record() -> RequestRecord | None:
    """The record of the running task; none once it has ended, as others may wait for its answer."""
    record = _current.get()
    return None if record is None or record.ended is not None else record
