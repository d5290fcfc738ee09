"""Waits for a server to be ready."""

from __future__ import annotations

import time

from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client.retry import check_amount
from guided.client.security import Endpoint, TlsChoice
from guided.client.status import raising_guided_errors
from guided.errors import ServiceError, ServiceUnavailableError

__all__ = ["wait_until_serving"]

_PAUSE_SECONDS = 0.1
"""Time between two checks of a server that is not ready."""
_CHECK_SECONDS = 5.0
"""The most time of one check."""


def wait_until_serving(address: str, timeout: float, *, tls: TlsChoice = False) -> None:
    """Return once the server's health service reports SERVING.

    Raises ``ServiceUnavailableError`` if it does not within ``timeout`` seconds.
    """
    check_amount(timeout, "timeout", hint="pass seconds")
    deadline = time.monotonic() + timeout
    with Endpoint.of(address, tls).open() as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while (state := _state(health, deadline - time.monotonic())) != "SERVING":
            if time.monotonic() >= deadline:
                raise ServiceUnavailableError(
                    f"{address} did not say SERVING within {timeout:g} s; its last state is "
                    f"{state}",
                    hint="check the server's log, or wait longer",
                )
            time.sleep(_PAUSE_SECONDS)


def _state(health: health_pb2_grpc.HealthStub, seconds: float) -> str:
    try:
        with raising_guided_errors():
            # The stubs' types omit the methods, which are attributes set in the constructor.
            response = health.Check(  # type: ignore[attr-defined]
                health_pb2.HealthCheckRequest(),
                timeout=min(max(seconds, _PAUSE_SECONDS), _CHECK_SECONDS),
            )
    except ServiceError as error:
        # While waiting, treat a server that is not there yet like one that is too busy.
        return str(error)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
