"""A server whose model is split over processes loses one of them, and is back."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from guided.client import Client, RawPrompt, wait_until_serving
from guided.errors import ServiceUnavailableError
from tests.engine.test_load_drafters import save
from tests.service.conftest import LOADING_SECONDS
from tests.service.server_process import REAL_SERVER, ServerProcess, children_of, serving


def wait_for_log(server: ServerProcess, text: str) -> str:
    """The first line of the log with a text, once it is there."""
    with server.log.open() as lines:
        while True:
            line = lines.readline()
            if text in line:
                return line
            assert server.process.poll() is None
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("way", "rank_0", "is_idle"),
    [("tensor_parallel", "155.7", True), ("pipeline_parallel", "155.4", False)],
)
def test_a_lost_rank_ends_the_engine_which_says_so_and_is_started_again(
    tmp_path: Path, way: str, rank_0: str, is_idle: bool
) -> None:
    settings = {
        "model": save(tmp_path / "model"),
        "dtype": "float32",
        "device": "cpu",
        way: "2",
        "cache_tokens": "512",
        "restart_backoff_seconds": "0",
    }
    with (
        serving(REAL_SERVER, tmp_path / "log", settings, timeout=LOADING_SECONDS) as server,
        Client(server.address) as client,
    ):
        assert f"weights by rank: rank 0 {rank_0} KiB, rank 1 155." in server.log.read_text()
        prompt = RawPrompt("the names")
        before = client.generate(prompt, max_tokens=8).text
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
        said = wait_for_log(server, "engine ends")
        assert f"rank 1 (process {rank}) was killed by signal 9" in said
        wait_for_log(server, "engine lost")
        wait_until_serving(server.address, LOADING_SECONDS)
        assert server.engine_process_id() != engine
        assert client.generate(prompt, max_tokens=8).text == before
        log = server.log.read_text()
    assert log.count("engine ready") == 2
    assert "Traceback" not in log
