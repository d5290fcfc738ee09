"""Turns errors into those of OpenAI's API: a status, an object, and when to try again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import grpc

from guided.errors import (
    GuidedError,
    IncompleteAnswerError,
    LimitExceededError,
    RequestError,
    UnauthenticatedError,
)
from guided_service.admission import OverloadedError
from guided_service.engine_connection import CutOffError
from guided_service.http.sent_names import CameFrom, field_sent, message_sent
from guided_service.request_record import note_failure
from guided_service.status import MAY_PASS, pause_of, shown, status_code_of

__all__ = ["JsonObject", "Refusal", "RefusedCallError", "TooLargeError", "refusal_of"]

JsonObject: TypeAlias = dict[str, object]

_STATUS: Final[Mapping[grpc.StatusCode, int]] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
"""The HTTP status of each gRPC status code that errors have."""

_LONGEST_MESSAGE: Final = 2000
"""In characters."""


class RefusedCallError(RequestError):
    """A call that HTTP has a status of its own for: an unknown path or model, a wrong method."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        field: str | None = None,
        hint: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """``headers`` are sent with the status."""
        super().__init__(message, field=field, hint=hint)
        self.status = status
        self.headers = headers


class TooLargeError(LimitExceededError):
    """A body that is larger than the server takes."""

    status: Final = 413


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a call that failed."""

    status: int
    body: JsonObject
    headers: tuple[tuple[str, str], ...] = ()


def refusal_of(
    error: Exception,
    retry_after_seconds: float,
    came_from: CameFrom | None = None,
) -> Refusal:
    """Return the answer for an error, and note the error for the log.

    Faults of the server are reported by their incident's id alone.
    """
    failure = shown(error)
    code = status_code_of(failure)
    note_failure(failure, code.name)
    status = _STATUS[code]
    if isinstance(failure, RefusedCallError | TooLargeError):
        status = failure.status
    told: JsonObject = {
        "message": _short(message_sent(failure, came_from or {})),
        "type": _type_of(status),
        "param": field_sent(failure, came_from or {"constraint": None}),
        "code": _code_of(failure),
    }
    if isinstance(failure, IncompleteAnswerError):
        told["guided"] = {"finish_reason": failure.finish_reason.value, "text": failure.text}
    return Refusal(status, {"error": told}, tuple(_headers(failure, code, retry_after_seconds)))


def _type_of(status: int) -> str:
    if status >= 500:
        return "server_error"
    return {401: "authentication_error", 429: "rate_limit_error"}.get(
        status, "invalid_request_error"
    )


def _code_of(error: GuidedError) -> str:
    """Return the kind of the error, under OpenAI's name where clients look for it."""
    match error:
        case UnauthenticatedError():
            return "invalid_api_key"
        case OverloadedError():
            return "rate_limit_exceeded"
        case RefusedCallError(status=404, field="model"):
            return "model_not_found"
    return error.code.lower()


def _headers(
    error: GuidedError, code: grpc.StatusCode, retry_after_seconds: float
) -> list[tuple[str, str]]:
    if isinstance(error, RefusedCallError):
        return [*error.headers]
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return [("www-authenticate", "Bearer")]
    if code not in MAY_PASS:
        return []
    if isinstance(error, CutOffError):
        # The request may have ended the engine, and might end the next one.
        return [("x-should-retry", "false")]
    seconds = pause_of(error) or retry_after_seconds
    return [
        ("retry-after", str(math.ceil(seconds))),
        ("retry-after-ms", str(math.ceil(1000 * seconds))),
    ]


def _short(message: str) -> str:
    # A text that quotes a caller may have half a surrogate pair, which JSON cannot carry.
    text = message.encode(errors="replace").decode()
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"
