"""A server whose model is split over processes loses one of them, and is back."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TextIO

import pytest

from guided.client import Client, RawPrompt, wait_until_serving
from guided.errors import ServiceUnavailableError
from tests.engine.test_load_drafters import save
from tests.service.conftest import LOADING_SECONDS
from tests.service.server_process import REAL_SERVER, ServerProcess, children_of, serving


def wait_for_log(lines: TextIO, server: ServerProcess, text: str) -> str:
    """The next line of the log with a text, once it is there."""
    while True:
        line = lines.readline()
        if text in line:
            return line
        assert server.process.poll() is None
        if not line:
            time.sleep(0.05)


def test_a_lost_rank_ends_the_engine_which_says_so_and_is_started_again(tmp_path: Path) -> None:
    settings = {
        "model": save(tmp_path / "model"),
        "dtype": "float32",
        "device": "cpu",
        "tensor_parallel": "2",
        "cache_tokens": "512",
        "restart_backoff_seconds": "0",
    }
    prompt = RawPrompt("the names")
    with (
        serving(REAL_SERVER, tmp_path / "log", settings, timeout=LOADING_SECONDS) as server,
        Client(server.address) as client,
        server.log.open() as log,
    ):
        wait_for_log(log, server, "weights by rank: rank 0 155.7 KiB, rank 1 155.7 KiB")
        before = client.generate(prompt, max_tokens=8).text
        for is_idle in (True, False):
            engine = server.engine_process_id()
            (rank,) = children_of(engine)
            if is_idle:
                os.kill(rank, signal.SIGKILL)
            else:
                with client.stream(prompt, max_tokens=400) as stream:
                    next(stream)
                    os.kill(rank, signal.SIGKILL)
                    with pytest.raises(ServiceUnavailableError, match="ended with status 1"):
                        list(stream)
            said = wait_for_log(log, server, "engine ends")
            assert f"rank 1 (process {rank}) was killed by signal 9" in said
            wait_for_log(log, server, "engine lost")
            wait_until_serving(server.address, LOADING_SECONDS)
            assert server.engine_process_id() != engine
            assert client.generate(prompt, max_tokens=8).text == before
        told = server.log.read_text()
    assert told.count("engine ready") == 3
    assert "Traceback" not in told
