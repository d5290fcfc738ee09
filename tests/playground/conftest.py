"""A server of a tiny model with its playground, and a browser in front of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.tiny_model import save_tiny_model
from tests.playground.chromium import CHROMIUM, DRIVER, Browser, browsing
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import REAL_SERVER

_LOADING_SECONDS = 300.0
"""How long kernels may take to be compiled."""


@pytest.fixture(scope="session")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server whose model is named ``tiny``, for tests that leave it as they found it."""
    folder = tmp_path_factory.mktemp("playground")
    model = save_tiny_model(folder / "tiny")
    with serving_http(
        REAL_SERVER, folder / "log", {"model": str(model)}, timeout=_LOADING_SECONDS
    ) as server:
        yield server


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser with an empty profile; GUIDED_TESTS=browser says that there has to be one."""
    if CHROMIUM is None or DRIVER is None:
        missing = "Chromium and its driver (Debian: chromium, chromium-driver) are not installed"
        if os.environ.get("GUIDED_TESTS") == "browser":
            pytest.fail(missing)
        pytest.skip(missing)
    with browsing(tmp_path / "profile") as opened:
        opened.resize(1440, 1100)
        yield opened
