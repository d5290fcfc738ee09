"""Watches calls for answers: gives each request an id, a log line and spans."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from typing_extensions import override

from guided.telemetry import constraint_kind, operation_of
from guided.v1 import generation_pb2 as pb
from guided_service.handlers import Wraps, kind_of
from guided_service.request_ids import is_name, name_of
from guided_service.request_log import RequestLog
from guided_service.request_record import (
    OK,
    RequestRecord,
    current_record,
    note_failure,
    note_name,
    recorded,
)
from guided_service.status import REQUEST_ID_TRAILER, Context, shown, status_code_of

if TYPE_CHECKING:
    from guided_service.tracing import RequestTracer

__all__ = [
    "UNREAD",
    "WatchesRequests",
    "is_past_deadline",
    "item_of_call",
    "note_message",
    "watched_item",
]

UNREAD = "unreadable"
"""The operation of a call whose message was not read yet, and may never be."""

_call: ContextVar[_Call | None] = ContextVar("call", default=None)


@dataclass(frozen=True, slots=True)
class _Call:
    """The call that a task serves."""

    watch: WatchesRequests
    record: RequestRecord
    context: Context

    def tell_id(self) -> None:
        """Name the call in the trailing metadata, however it ends."""
        self.context.set_trailing_metadata(((REQUEST_ID_TRAILER, self.record.request_id),))


class WatchesRequests(Wraps):
    """Keeps a record of each call of one service, logs it at its end, and traces it on request."""

    def __init__(self, service: str, tracer: RequestTracer | None, log: RequestLog | None) -> None:
        """Without a ``tracer`` it makes no spans, and without a ``log`` no lines."""
        self._service = service
        self._log = log
        self._tracer = tracer

    @override
    def wrapped(self, handler: Any, path: str) -> Any:
        service, _, method = path.lstrip("/").partition("/")
        if service != self._service:
            return handler
        make, answer = kind_of(handler)

        async def answer_watched(messages: object, context: Context) -> Any:
            with self._watching_call(method, context):
                return await answer(messages, context)

        return make(answer_watched, handler.request_deserializer, handler.response_serializer)

    @contextmanager
    def _watching_call(self, method: str, context: Context) -> Iterator[None]:
        record = RequestRecord(
            service=self._service, method=method, peer=context.peer(), operation=UNREAD
        )
        call = _Call(self, record, context)
        # Set before anything can go wrong; an error's own metadata has it as well.
        call.tell_id()
        token = _call.set(call)
        try:
            with self.watching(record, None, _carrier(context)):
                try:
                    yield
                except BaseException:
                    _note_end(record, context)
                    raise
        finally:
            _call.reset(token)

    @contextmanager
    def watching(
        self,
        record: RequestRecord,
        request: pb.GenerateRequest | None,
        carrier: Mapping[str, str] | None = None,
    ) -> Iterator[None]:
        """Assign a record to the running task; logs it and ends its spans when the block ends.

        ``carrier`` is the metadata in which the caller's own span may be named.
        """
        with ExitStack() as at_end:
            if self._log is not None:
                at_end.callback(self._log.add, record)
            if self._tracer is not None:
                at_end.enter_context(self._tracer.tracing(record, request, carrier))
            at_end.enter_context(recorded(record))
            yield

    def note_message(self, record: RequestRecord, message: object) -> None:
        """Note what the message requests, now that it has been read."""
        request = _request_in(message)
        if request is not None and is_name(request.request_id):
            note_name(request.request_id)
        record.operation = "batch" if request is None else operation_of(request)
        record.constraint = None if request is None else constraint_kind(request)
        if self._tracer is not None:
            self._tracer.note_message(record, request)


def note_message(message: object) -> None:
    """Note the message of the running task's call."""
    if (call := _call.get()) is not None:  # else it is not watched
        call.watch.note_message(call.record, message)
        call.tell_id()


@contextmanager
def watched_item(index: int, request: pb.GenerateRequest) -> Iterator[None]:
    """Assign the running task a record for one request of its call's batch."""
    call = _call.get()
    if call is None:  # not watched
        yield
        return
    with call.watch.watching(_item_record(call.record, index, request), request):
        yield


@contextmanager
def item_of_call(watch: WatchesRequests, index: int, request: pb.GenerateRequest) -> Iterator[None]:
    """Assign the running task a record for one of several requests that it makes of one call.

    Raises the error of the block as the caller gets it.
    """
    whole = current_record()
    if whole is None:
        yield
        return
    with watch.watching(_item_record(whole, index, request), request):
        try:
            yield
        except Exception as error:
            failure = shown(error)
            note_failure(failure, status_code_of(failure).name)
            if failure is error:
                raise
            raise failure from error


def _item_record(whole: RequestRecord, index: int, request: pb.GenerateRequest) -> RequestRecord:
    return RequestRecord(
        service=whole.service,
        method=whole.method,
        peer=whole.peer,
        operation=operation_of(request),
        constraint=constraint_kind(request),
        call_id=whole.request_id,
        index=index,
        client=whole.client,
        request_id=name_of(request.request_id),
        route=whole.route,
    )


def _request_in(message: object) -> pb.GenerateRequest | None:
    """Return the only request of a call; ``None`` for a batch or an unreadable message."""
    match message:
        case pb.GenerateRequest():
            return message
        case pb.GenerateStreamRequest():
            return message.request
        case _:
            return None


def _carrier(context: Context) -> Mapping[str, str]:
    metadata = context.invocation_metadata() or ()
    return {key: value for key, value in metadata if isinstance(value, str)}


def _note_end(record: RequestRecord, context: Context) -> None:
    """Note the status of a call that ended before a failure was noted."""
    if record.status != OK:
        return
    code = context.code()
    if code:
        number = code if isinstance(code, int) else code.value[0]
        record.status = next(each.name for each in grpc.StatusCode if each.value[0] == number)
    elif is_past_deadline(context.time_remaining(), time.monotonic() - record.began.monotonic):
        record.status = grpc.StatusCode.DEADLINE_EXCEEDED.name


def is_past_deadline(remaining: float | None, passed: float) -> bool:
    """Whether a call ended by its deadline; ``remaining`` is ``None`` if it has none.

    The cancellation of a caller that gives up at the deadline may arrive before it passes here: the
    time allowed is sent rounded up, by as much as a hundredth, and counts from the call's arrival.
    """
    return remaining is not None and remaining <= 0.05 + 0.01 * (passed + remaining)
