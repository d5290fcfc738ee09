"""Clients of others, unchanged, against a server of a tiny model: ``make test-clients``.

They are installed apart from the server, in an environment whose Python ``GUIDED_CLIENTS`` names.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.kit.pages import blocks
from tests.kit.tiny_model import save_tiny_model
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import REAL_SERVER

PYTHON = os.environ.get("GUIDED_CLIENTS", "")
PROGRAMS = Path(__file__).with_name("programs")

pytestmark = pytest.mark.skipif(not PYTHON, reason="make test-clients runs these")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("tiny")
    settings = {"model": str(save_tiny_model(folder / "model")), "dtype": "float32"}
    with serving_http(REAL_SERVER, folder / "log", settings, timeout=300) as running:
        yield running


PROGRAMS_OF_OTHERS = [
    "anthropic.py",
    "instructor.py",
    "langchain.py",
    "langchain_responses.py",
    "litellm.py",
    "node.cjs",
    "open_responses.py",
    "pydantic_ai.py",
    "pydantic_ai_responses.py",
]


@pytest.mark.parametrize("program", PROGRAMS_OF_OTHERS)
def test_a_client_works_unchanged(server: HttpServer, program: str) -> None:
    model = httpx2.get(f"{server.url}/v1/models").json()["data"][0]["id"]
    runs = "node" if program.endswith(".cjs") else PYTHON
    modules = Path(PYTHON).parents[1] / "node_modules"
    done = subprocess.run(
        [runs, str(PROGRAMS / f"with_{program}"), f"{server.url}/v1", model],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"NODE_PATH": str(modules)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "False" not in done.stdout


def test_the_page_of_anthropic_shows_code_that_runs(server: HttpServer) -> None:
    model = httpx2.get(f"{server.url}/v1/models").json()["data"][0]["id"]
    program = "\n".join(block.text for block in blocks("docs/anthropic.md", "python"))
    for written, meant in (
        ("http://127.0.0.1:8000", server.url),
        ("SmolLM2-135M-Instruct", model),
    ):
        program = program.replace(written, meant)
    done = subprocess.run(
        [PYTHON, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "urgent=" in done.stdout
