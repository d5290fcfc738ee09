"""From a status of the transport to an error of the library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from guided.error_record import ErrorRecord, bare_message, known_codes, rebuild_error
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

__all__ = ["DETAILS_TRAILER", "DOMAIN", "ERRORS", "error_of_status", "raising_guided_errors"]

DOMAIN = "guided"
"""Domain of the ErrorInfo of every error that the server itself raised."""

DETAILS_TRAILER = "grpc-status-details-bin"
"""Trailing metadata under which a google.rpc.Status travels."""

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
"""What a status means when the server's own reason is missing, or newer than this client."""

_HINTS: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "allow more time, or fewer tokens",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "try again later, or send less in one call",
    grpc.StatusCode.UNIMPLEMENTED: "check that client and server have the same version",
    grpc.StatusCode.UNAVAILABLE: "check the address, and that the server runs",
}

_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def error_of_status(status: status_pb2.Status) -> GuidedError:
    """The error that the server raised, or the one that its status code stands for."""
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
    # A status OK has no place in an error: it is a fault of the server, as an unknown one is.
    error = ERRORS.get(code, InternalServiceError)
    return error(f"{code.name}: {status.message}", hint=_HINTS.get(code))


@contextmanager
def raising_guided_errors() -> Iterator[None]:
    """Raise errors of the transport as a ``GuidedError``, of which they are the cause."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_of_status(_status_of(error)) from error


def _error_of_info(info: error_details_pb2.ErrorInfo, message: str) -> GuidedError:
    fields = dict(info.metadata)
    try:
        return rebuild_error(ErrorRecord(info.reason, bare_message(message, fields), fields))
    except ValueError as error:
        return InternalServiceError(f"the server sent a malformed error ({error}): {message}")


def _status_of(error: grpc.RpcError) -> status_pb2.Status:
    # Every error that a call raises is a call as well, in both flavours of the library.
    assert isinstance(error, grpc.Call | grpc.aio.AioRpcError), f"{error!r} is not a call"
    plain = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_TRAILER:
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                # A damaged detail must not hide the status that came with it.
                return plain
    return plain
