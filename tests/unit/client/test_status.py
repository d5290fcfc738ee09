"""No status of the transport goes unmapped, and the server's own reason comes first."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from guided.client.status import ERRORS, error_of_status
from guided.errors import (
    GuidedError,
    InternalServiceError,
    InvalidConstraintError,
    RequestError,
    ServiceUnavailableError,
)


def status(
    code: grpc.StatusCode, message: str, info: error_details_pb2.ErrorInfo | None = None
) -> status_pb2.Status:
    packed = AnyMessage()
    if info is not None:
        packed.Pack(info)
    return status_pb2.Status(
        code=code.value[0], message=message, details=[] if info is None else [packed]
    )


def test_every_status_but_ok_stands_for_an_error() -> None:
    assert set(ERRORS) == set(grpc.StatusCode) - {grpc.StatusCode.OK}


def test_the_reason_of_the_server_gives_the_error_with_its_attributes() -> None:
    info = error_details_pb2.ErrorInfo(
        reason="INVALID_CONSTRAINT",
        domain="guided",
        metadata={"pointer": "/type", "position": "3", "hint": "name one of seven"},
    )
    message = "at /type: 'strin' is no type; name one of seven"
    error = error_of_status(status(grpc.StatusCode.INVALID_ARGUMENT, message, info))
    assert isinstance(error, InvalidConstraintError)
    assert str(error) == message
    assert (error.pointer, error.position, error.hint) == ("/type", 3, "name one of seven")


@pytest.mark.parametrize(
    ("domain", "reason"), [("elsewhere", "INVALID_CONSTRAINT"), ("guided", "A_NEWER_REASON")]
)
def test_an_unknown_reason_leaves_the_meaning_of_the_status(domain: str, reason: str) -> None:
    info = error_details_pb2.ErrorInfo(reason=reason, domain=domain)
    error = error_of_status(status(grpc.StatusCode.INVALID_ARGUMENT, "odd", info))
    assert type(error) is RequestError
    assert str(error) == "INVALID_ARGUMENT: odd"


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (
            grpc.StatusCode.UNAVAILABLE,
            ServiceUnavailableError,
            "UNAVAILABLE: gone; check the address, and that the server runs",
        ),
        (grpc.StatusCode.OK, InternalServiceError, "OK: gone"),
    ],
)
def test_a_bare_status_says_what_it_is(
    code: grpc.StatusCode, kind: type[GuidedError], text: str
) -> None:
    error = error_of_status(status(code, "gone"))
    assert type(error) is kind
    assert str(error) == text


@pytest.mark.parametrize(
    ("told", "hint"),
    [
        (
            "UNIMPLEMENTED: ipv4:127.0.0.1:8000: Failed parsing HTTP/2 (Expected SETTINGS frame as "
            "the first frame, got frame type 80)",
            "that port does not speak gRPC; is it the one for HTTP? The one for gRPC is 50051, "
            "unless the server was told another",
        ),
        (
            "UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): "
            "SSL_ERROR_SSL: error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER",
            "what answered does not encrypt; leave tls out, or check the port",
        ),
        (
            "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed",
            "the server ended the connection at once; pass tls=... if it requires encryption, with "
            "a certificate of yours if it requires one",
        ),
        (
            "UNKNOWN: ipv6:%5B::1%5D:1: Failed to connect to remote host: Connection refused",
            "check that the server runs; localhost is also 127.0.0.1, whose fault is not told "
            "here: write that as the address to see it",
        ),
        (
            "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
            "check the address, and that the server runs",
        ),
    ],
)
def test_a_failed_connection_says_what_to_check(told: str, hint: str) -> None:
    message = f"failed to connect to all addresses; last error: {told}"
    assert error_of_status(status(grpc.StatusCode.UNAVAILABLE, message)).hint == hint


def test_a_connection_that_broke_later_says_nothing_of_encryption() -> None:
    error = error_of_status(status(grpc.StatusCode.UNAVAILABLE, "Socket closed"))
    assert error.hint == "check the address, and that the server runs"


def test_a_status_no_one_has_heard_of_is_a_fault_of_the_service() -> None:
    error = error_of_status(status_pb2.Status(code=99, message="odd"))
    assert type(error) is InternalServiceError


def test_a_malformed_reason_is_a_fault_of_the_service() -> None:
    info = error_details_pb2.ErrorInfo(
        reason="LIMIT_EXCEEDED", domain="guided", metadata={"limit": "many"}
    )
    error = error_of_status(status(grpc.StatusCode.INVALID_ARGUMENT, "too much", info))
    assert type(error) is InternalServiceError
    assert "too much" in str(error)
