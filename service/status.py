"""Turns errors of the library into statuses with details, and ends calls with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Never, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from guided.error_record import (
    BY_DRAFTER,
    DETAILS_TRAILER,
    DOMAIN,
    PUSHBACK_TRAILER,
    ErrorRecord,
    rebuild_error,
    record_error,
)
from guided.errors import (
    AnswerValidationError,
    ConstraintError,
    DeadlineExceededError,
    GuidedError,
    IncompleteAnswerError,
    InternalServiceError,
    InvalidConstraintError,
    LimitExceededError,
    MissingExtraError,
    ModelError,
    OutOfMemoryError,
    RequestCancelledError,
    RequestError,
    ServiceError,
    ServiceUnavailableError,
    TokenRejectedError,
    UnauthenticatedError,
    UnknownConstraintError,
    UnknownModelError,
    UnsatisfiableError,
    UnsupportedFeatureError,
    incident_of,
)
from guided.runtime.tracebacks import clear_locals
from guided_service.admission import OverloadedError
from guided_service.engine_connection import CutOffError
from guided_service.quotas import QuotaExceededError
from guided_service.request_record import current_request_id, note_failure

__all__ = [
    "MAY_PASS",
    "REQUEST_ID_TRAILER",
    "STATUS_CODES",
    "Context",
    "abort",
    "pause_of",
    "shown",
    "status_code_of",
    "status_of",
    "trailers_of",
]

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

STATUS_CODES: Mapping[type[GuidedError], grpc.StatusCode] = {
    RequestError: grpc.StatusCode.INVALID_ARGUMENT,
    ConstraintError: grpc.StatusCode.INVALID_ARGUMENT,
    InvalidConstraintError: grpc.StatusCode.INVALID_ARGUMENT,
    UnsatisfiableError: grpc.StatusCode.INVALID_ARGUMENT,
    # Sending the same again cannot help, so it is not RESOURCE_EXHAUSTED, which invites retries.
    LimitExceededError: grpc.StatusCode.INVALID_ARGUMENT,
    UnknownConstraintError: grpc.StatusCode.NOT_FOUND,
    UnknownModelError: grpc.StatusCode.NOT_FOUND,
    # The request's allowance is used up; only another request can return more.
    IncompleteAnswerError: grpc.StatusCode.OUT_OF_RANGE,
    # The request is valid, and another version may support it.
    UnsupportedFeatureError: grpc.StatusCode.FAILED_PRECONDITION,
    ModelError: grpc.StatusCode.FAILED_PRECONDITION,
    MissingExtraError: grpc.StatusCode.FAILED_PRECONDITION,
    OutOfMemoryError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    OverloadedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ServiceUnavailableError: grpc.StatusCode.UNAVAILABLE,
    UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
    RequestCancelledError: grpc.StatusCode.CANCELLED,
    # Faults of the service, whatever their kind: a caller can do nothing about them.
    TokenRejectedError: grpc.StatusCode.INTERNAL,
    AnswerValidationError: grpc.StatusCode.INTERNAL,
    InternalServiceError: grpc.StatusCode.INTERNAL,
    ServiceError: grpc.StatusCode.INTERNAL,
    GuidedError: grpc.StatusCode.INTERNAL,
}

MAY_PASS = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
"""Codes of errors that may have passed by the next try."""

_MAY_PASS_NUMBERS = frozenset(code.value[0] for code in MAY_PASS)

REQUEST_ID_TRAILER = "guided-request-id"
"""Trailing metadata with the call's id in the server's log."""

_LONGEST_MESSAGE = 600
_LONGEST_FIELD = 300
_LONGEST_DRAFTERS = 1000
_LONGEST_ANSWER = 2000
"""In bytes. The transport may drop a call whose trailers exceed 8 KiB; these stay below it even
with each text sent twice, once with three characters per byte."""


def status_code_of(error: GuidedError) -> grpc.StatusCode:
    """Return the code of an error, or that of its nearest base class."""
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def status_of(error: GuidedError, retry_after_seconds: float) -> status_pb2.Status:
    """Make the status of an error; one that may pass asks its caller to retry after a while.

    A request that was running when its engine ended does not: it may have ended the engine, and
    would end the next one. The status names the running task's request, which is noted as failed.
    """
    code = status_code_of(error)
    record = _shortened(record_error(error))
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=record.code, domain=DOMAIN, metadata=record.fields)
    ]
    if isinstance(error, RequestError) and error.field is not None:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=record.message, reason=record.code
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if code in MAY_PASS and not isinstance(error, CutOffError):
        delay = Duration()
        delay.FromMilliseconds(math.ceil(1000 * (pause_of(error) or retry_after_seconds)))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    if isinstance(error, QuotaExceededError):
        exceeded = error_details_pb2.QuotaFailure.Violation(
            subject=error.subject, description=error.quota
        )
        details.append(error_details_pb2.QuotaFailure(violations=[exceeded]))
    note_failure(error, code.name)
    if (request_id := current_request_id()) is not None:
        details.append(error_details_pb2.RequestInfo(request_id=request_id))
    return status_pb2.Status(
        code=code.value[0],
        message=str(rebuild_error(record)),
        details=[_packed(detail) for detail in details],
    )


def pause_of(error: GuidedError) -> float | None:
    """Return the seconds until a retry, if the error itself knows them."""
    return error.retry_after_seconds if isinstance(error, OverloadedError) else None


def trailers_of(status: status_pb2.Status) -> tuple[tuple[str, str | bytes], ...]:
    """Return the trailing metadata that carries a status with its details."""
    trailers: list[tuple[str, str | bytes]] = [(DETAILS_TRAILER, status.SerializeToString())]
    if status.code in _MAY_PASS_NUMBERS:
        trailers.append((PUSHBACK_TRAILER, str(_pushback_millis(status))))
    if (request_id := current_request_id()) is not None:
        trailers.append((REQUEST_ID_TRAILER, request_id))
    return tuple(trailers)


def _pushback_millis(status: status_pb2.Status) -> int:
    for detail in status.details:
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(retry):
            return int(retry.retry_delay.ToMilliseconds())
    return -1


def _shortened(record: ErrorRecord) -> ErrorRecord:
    fields = {
        name: _short(value, _LONGEST_ANSWER if name == "text" else _LONGEST_FIELD)
        for name, value in record.fields.items()
        # It is parsed as JSON, so it is sent whole or not at all.
        if name != BY_DRAFTER
    }
    drafters = record.fields.get(BY_DRAFTER, "")
    if 0 < len(drafters) <= _LONGEST_DRAFTERS:
        fields[BY_DRAFTER] = drafters
    return replace(record, message=_short(record.message, _LONGEST_MESSAGE), fields=fields)


def _short(text: str, longest: int) -> str:
    # A text that quotes a caller may have half a surrogate pair, which no message can carry.
    encoded = text.encode(errors="replace")
    if len(encoded) <= longest:
        return encoded.decode()
    return encoded[:longest].decode(errors="ignore") + "…"


def _packed(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


async def abort(context: Context, error: Exception, retry_after_seconds: float) -> Never:
    """End a call with the part of an error that its caller may see."""
    failure = shown(error)
    status = status_of(failure, retry_after_seconds)
    # The transport keeps the error that ends a call in a reference cycle until garbage is
    # collected, and with it the message of each refused call.
    clear_locals(error)
    await context.abort(status_code_of(failure), status.message, trailers_of(status))
    raise AssertionError("a call went on after its end")


def shown(error: Exception) -> GuidedError:
    """Return the error for the caller: faults of the service only by their incident's id."""
    if isinstance(error, InternalServiceError):
        return error
    if isinstance(error, GuidedError) and status_code_of(error) is not grpc.StatusCode.INTERNAL:
        return error
    return incident_of(error)
