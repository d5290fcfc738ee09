"""Turns a status of the transport into an error of the library, and says whether it may pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from guided.error_record import (
    DETAILS_TRAILER,
    DOMAIN,
    PUSHBACK_TRAILER,
    ErrorRecord,
    bare_message,
    known_codes,
    rebuild_error,
)
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    InternalServiceError,
    RequestCancelledError,
    RequestError,
    ServiceError,
    ServiceUnavailableError,
    UnauthenticatedError,
)

__all__ = [
    "ERRORS",
    "Chance",
    "Failure",
    "error_of_status",
    "failure_of",
    "raising_guided_errors",
]

_REFUSED_STREAM = "RST_STREAM with error code 7"
"""REFUSED_STREAM: nothing of the request was processed (RFC 9113, section 8.7)."""
_MAY_PASS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)

_UNREACHED = "failed to connect"
"""How the transport's message begins if it never had a connection. If its wording changed, such a
call would count as broken, which is retried less often."""

_RECONNECTION_SECONDS = 0.1
"""Least time before a connection is retried."""

ERRORS: Mapping[grpc.StatusCode, type[RequestError | ServiceError]] = {
    grpc.StatusCode.CANCELLED: RequestCancelledError,
    grpc.StatusCode.UNKNOWN: InternalServiceError,
    grpc.StatusCode.INVALID_ARGUMENT: RequestError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.NOT_FOUND: RequestError,
    grpc.StatusCode.ALREADY_EXISTS: RequestError,
    grpc.StatusCode.PERMISSION_DENIED: ServiceError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ServiceUnavailableError,
    grpc.StatusCode.FAILED_PRECONDITION: RequestError,
    grpc.StatusCode.ABORTED: ServiceUnavailableError,
    grpc.StatusCode.OUT_OF_RANGE: RequestError,
    grpc.StatusCode.UNIMPLEMENTED: ServiceError,
    grpc.StatusCode.INTERNAL: InternalServiceError,
    grpc.StatusCode.UNAVAILABLE: ServiceUnavailableError,
    grpc.StatusCode.DATA_LOSS: InternalServiceError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
}
"""The error for each status if the server's own reason is missing, or newer than this client."""

_HINTS: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "allow more time, or fewer tokens",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "try again later, or send less in one call",
    grpc.StatusCode.UNIMPLEMENTED: "check that client and server have the same version",
    grpc.StatusCode.UNAVAILABLE: "check the address, and that the server runs",
}

_CONNECTION_HINTS: Mapping[re.Pattern[str], str] = {
    re.compile("Failed parsing HTTP/2"): (
        "that port does not speak gRPC; is it the one for HTTP? The one for gRPC is 50051, unless "
        "the server was told another"
    ),
    re.compile("WRONG_VERSION_NUMBER"): (
        "what answered does not encrypt; leave tls out, or check the port"
    ),
    re.compile("CERTIFICATE_VERIFY_FAILED"): (
        "name the authority that signed the server's certificate: tls=guided.Tls(ca=...)"
    ),
    re.compile("Hostname Verification Check failed"): (
        "the server's certificate is for another name; pass guided.Tls(server_name=...) where that "
        "is right"
    ),
    re.compile("Failed to create security handshaker"): (
        "check that the files of guided.Tls are certificates and their key, in PEM"
    ),
    re.compile(f"^{_UNREACHED}.*(Socket closed|Connection reset)"): (
        "the server ended the connection at once; pass tls=... if it requires encryption, with a "
        "certificate of yours if it requires one"
    ),
    re.compile(r"(\[|%5B)::1(\]|%5D):.*Connection refused"): (
        "check that the server runs; localhost is also 127.0.0.1, whose fault is not told here: "
        "write that as the address to see it"
    ),
}
"""What to do where no connection was made, by the transport's message, which tells only the last of
the addresses that it tried."""

_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class Chance(Enum):
    """The chance that a failed call is answered if it is retried."""

    NONE = auto()
    """It may have run, or would fail again."""
    REFUSED = auto()
    """The server did not take it, and says when to try again."""
    UNREACHED = auto()
    """It was never sent, for lack of a connection."""
    BROKEN = auto()
    """Unknown: the connection broke, or something between here and the server gave up."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How one attempt at a call ended."""

    error: GuidedError
    chance: Chance
    seconds: float = 0.0
    """Seconds before the next attempt."""
    is_told: bool = False
    """Whether the server reports it, and not the transport."""


def failure_of(error: grpc.RpcError) -> Failure:
    """Return the library's error for one of the transport, and whether it may pass."""
    call = _call_of(error)
    trailers = dict(call.trailing_metadata() or ())
    failed, pushback = error_of_status(_status_of(call)), _seconds_of(trailers)
    is_told = pushback is not None or DETAILS_TRAILER in trailers
    if call.code() not in _MAY_PASS or (pushback is not None and pushback < 0):
        return Failure(failed, Chance.NONE, is_told=is_told)
    if pushback is not None:
        return Failure(failed, Chance.REFUSED, pushback, is_told)
    details = call.details() or ""
    if _REFUSED_STREAM in details:
        return Failure(failed, Chance.REFUSED, 0.0, is_told)
    is_sent = not details.startswith(_UNREACHED)
    chance = Chance.BROKEN if is_sent else Chance.UNREACHED
    return Failure(failed, chance, _RECONNECTION_SECONDS, is_told)


def error_of_status(status: status_pb2.Status) -> GuidedError:
    """Return the error that the server raised, or the one that its status code stands for."""
    error = _told_error(status)
    request = error_details_pb2.RequestInfo()
    if any(detail.Unpack(request) for detail in status.details):
        error.request_id = request.request_id
    return error


def _told_error(status: status_pb2.Status) -> GuidedError:
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in known_codes():
            return _error_of_info(info, status.message)
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    # A status OK in an error is a fault of the server, like an unknown one.
    error = ERRORS.get(code, InternalServiceError)
    hint = next(
        (hint for sign, hint in _CONNECTION_HINTS.items() if sign.search(status.message)),
        _HINTS.get(code),
    )
    return error(f"{code.name}: {status.message}", hint=hint)


@contextmanager
def raising_guided_errors() -> Iterator[None]:
    """Raise errors of the transport as a ``GuidedError``, with the original as its cause."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_of_status(_status_of(_call_of(error))) from error


def _error_of_info(info: error_details_pb2.ErrorInfo, message: str) -> GuidedError:
    fields = dict(info.metadata)
    try:
        return rebuild_error(ErrorRecord(info.reason, bare_message(message, fields), fields))
    except ValueError as error:
        return InternalServiceError(f"the server sent a malformed error ({error}): {message}")


def _call_of(error: grpc.RpcError) -> grpc.Call | grpc.aio.AioRpcError:
    # Every error that a call raises is also a call, in both flavours of the library.
    assert isinstance(error, grpc.Call | grpc.aio.AioRpcError), f"{error!r} is not a call"
    return error


def _status_of(error: grpc.Call | grpc.aio.AioRpcError) -> status_pb2.Status:
    plain = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_TRAILER:
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                # A damaged detail must not hide the status that came with it.
                return plain
    return plain


def _seconds_of(trailers: Mapping[str, str | bytes]) -> float | None:
    """Return the pause that the server sets; negative if the call must not be retried."""
    if PUSHBACK_TRAILER not in trailers:
        return None
    try:
        return int(trailers[PUSHBACK_TRAILER]) / 1000
    except ValueError:
        return -1.0  # as gRPC A6 prescribes for what is no number
