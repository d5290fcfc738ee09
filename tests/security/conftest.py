"""A server of a tiny real model, for tests that leave it as they found it or serving."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guided.client import Client, wait_until_serving
from tests.kit.soak import soak_server
from tests.service.http_server import HttpServer
from tests.service.server_process import ServerProcess


@pytest.fixture(scope="session")
def _tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with soak_server(tmp_path_factory.mktemp("tiny"), streams=128) as server:
        yield server


@pytest.fixture
def tiny_web(_tiny_server: HttpServer) -> HttpServer:
    """The server with both interfaces, serving."""
    wait_until_serving(_tiny_server.process.address, 120)
    return _tiny_server


@pytest.fixture
def tiny_server(tiny_web: HttpServer) -> ServerProcess:
    """The server, serving."""
    return tiny_web.process


@pytest.fixture
def tiny(tiny_server: ServerProcess) -> Iterator[Client]:
    """A client of it."""
    with Client(tiny_server.address) as client:
        yield client
