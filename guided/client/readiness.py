"""Waiting for a server that is still loading its model."""

from __future__ import annotations

import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client.channel import checked_address
from guided.client.status import raising_guided_errors
from guided.errors import ServiceError, ServiceUnavailableError

__all__ = ["wait_until_serving"]

_PAUSE_SECONDS = 0.1


def wait_until_serving(address: str, timeout: float) -> None:
    """Return once the server's health service says SERVING.

    Raises ``ServiceUnavailableError`` when ``timeout`` seconds have passed without it.
    """
    deadline = time.monotonic() + timeout
    with grpc.insecure_channel(checked_address(address)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while (state := _state(health)) != "SERVING":
            if time.monotonic() >= deadline:
                raise ServiceUnavailableError(
                    f"{address} did not say SERVING within {timeout:g} s; its last state is "
                    f"{state}",
                    hint="check the server's log, or wait longer",
                )
            time.sleep(_PAUSE_SECONDS)


def _state(health: health_pb2_grpc.HealthStub) -> str:
    try:
        with raising_guided_errors():
            # The stubs' types leave out the methods, which are attributes set when it is made.
            response = health.Check(  # type: ignore[attr-defined]
                health_pb2.HealthCheckRequest(), timeout=5.0
            )
    except ServiceError as error:
        # A server that is not there yet and one that is too busy are the same to who waits.
        return str(error)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
