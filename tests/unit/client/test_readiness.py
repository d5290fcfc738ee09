"""Waiting for a server takes no longer than it was told to."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client import wait_until_serving
from guided.errors import ServiceUnavailableError


class Sick(health_pb2_grpc.HealthServicer):
    """Says that it does not serve, and notes how long callers would have waited for that."""

    def __init__(self) -> None:
        self.patience: list[float] = []

    def Check(  # noqa: N802
        self,
        request: health_pb2.HealthCheckRequest,  # noqa: ARG002
        context: grpc.ServicerContext,
    ) -> health_pb2.HealthCheckResponse:
        self.patience.append(context.time_remaining())
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)


@pytest.fixture
def sick() -> Iterator[tuple[str, Sick]]:
    server, servicer = grpc.server(ThreadPoolExecutor(1)), Sick()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", servicer
    server.stop(0)


def test_no_check_of_a_server_outlasts_the_wait(sick: tuple[str, Sick]) -> None:
    address, servicer = sick
    with pytest.raises(ServiceUnavailableError, match="its last state is NOT_SERVING"):
        wait_until_serving(address, 0.5)
    assert max(servicer.patience) <= 0.5
