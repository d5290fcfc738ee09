"""The servers that tests talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from guided import testing
from guided.client import Client
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import ECHO_SERVER, REAL_SERVER, ServerProcess, serving

LOADING_SECONDS = 300.0
"""How long the default model may take to be fetched, converted and loaded."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of the default model, for tests that leave it as they found it."""
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(REAL_SERVER, log, timeout=LOADING_SECONDS) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of the server of the default model."""
    with Client(server.address) as connected:
        yield connected


@pytest.fixture
def echo_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A fresh server over the echo engine."""
    with serving(ECHO_SERVER, tmp_path / "log") as running:
        yield running


@pytest.fixture
def echo(echo_server: ServerProcess) -> Iterator[Client]:
    """A client of a fresh server over the echo engine."""
    with Client(echo_server.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def shared_echo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server over the echo engine, for tests that only request answers.

    Its counters and its log include the requests of other tests, whose ids are taken.
    """
    with serving(ECHO_SERVER, tmp_path_factory.mktemp("echo") / "log") as running:
        yield running


@pytest.fixture
def shared_echo(shared_echo_server: ServerProcess) -> Iterator[Client]:
    """A client of the server over the echo engine that tests share."""
    with Client(shared_echo_server.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a tiny model that has tokens around thoughts, for tests that ask for answers."""
    # Loaded here, as most tests of this folder take no torch.
    from tests.kit.tiny_model import save_tiny_model

    folder = tmp_path_factory.mktemp("thinker")
    model = save_tiny_model(folder / "model", thinks=True)
    settings = {"model": str(model), "dtype": "float32"}
    with serving_http(REAL_SERVER, folder / "log", settings, timeout=LOADING_SECONDS) as server:
        yield server


@pytest.fixture
def model_free() -> Iterator[testing.Server]:
    """A fresh server without a model, which answers what a test gives it."""
    with testing.Server() as running:
        yield running


@pytest.fixture
def asking(model_free: testing.Server) -> Iterator[Client]:
    """A client of the server without a model."""
    with Client(model_free.address) as connected:
        yield connected
