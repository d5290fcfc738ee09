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

_OUR_PLACE: Final = "sampling."
"""Prefix of the names of options that are fields of the body here."""

_SHOWN_PLACES: Final = ("max_tokens", "tools.")
"""Beginnings of the names of fields that messages contain."""

_OFF: Final[Mapping[str, str]] = {
    "chat_template_kwargs": "false",
    "thinking": '{"type": "disabled"}',
}
"""The value without thoughts of a field about them, by its beginning; other fields have numbers or
words."""


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
    came_from: Mapping[str, str | None] | None = None,
) -> Refusal:
    """Return the answer for an error, and note the error for the log.

    ``came_from`` maps fields of our own requests to the fields of the body they came from. Faults
    of the server are reported by their incident's id alone.
    """
    failure = shown(error)
    code = status_code_of(failure)
    note_failure(failure, code.name)
    status = _STATUS[code]
    if isinstance(failure, RefusedCallError | TooLargeError):
        status = failure.status
    told: JsonObject = {
        "message": _short(_message(failure, came_from or {})),
        "type": _type_of(status),
        "param": _field_of(failure, came_from or {"constraint": None}),
        "code": _code_of(failure),
    }
    if isinstance(failure, IncompleteAnswerError):
        told["guided"] = {"finish_reason": failure.finish_reason.value, "text": failure.text}
    return Refusal(status, {"error": told}, tuple(_headers(failure, code, retry_after_seconds)))


def _message(error: GuidedError, came_from: Mapping[str, str | None]) -> str:
    """Return what went wrong and how to fix it, with the caller's names of fields."""
    field = error.field if isinstance(error, RequestError) else None
    if field == "reasoning" and (sent := came_from.get(field)) is not None:
        # The engine's hint names options that a body does not have.
        off = _OFF.get(sent.partition(".")[0], "none or 0")
        return f"{error.message}; leave {sent} out, or set it to {off}"
    if field is not None and field.startswith(_SHOWN_PLACES):
        return str(error).replace(field, came_from.get(field) or field)
    return str(error)


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


def _field_of(error: GuidedError, came_from: Mapping[str, str | None]) -> str | None:
    field = error.field if isinstance(error, RequestError) else None
    if field is None:
        return None
    if field in came_from:
        return came_from[field]
    ours = field.partition(".")[0]
    if ours in came_from:
        return came_from[ours]
    return field.removeprefix(_OUR_PLACE)


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
