"""The command `guided top` against a server, printed and in a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from guided.client import Client, RawPrompt
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving

COMMAND = (sys.executable, "-c", "from guided.cli import main; main()", "top")


def test_one_frame_is_printed_for_scripts(echo_server: ServerProcess, echo: Client) -> None:
    with echo.stream(RawPrompt("a text"), max_tokens=100_000) as stream:
        next(stream)
        done = subprocess.run(
            [*COMMAND, "--once", "--address", echo_server.address, "--interval", "0.1"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"COLUMNS": "110"},
        )
    assert f"echo at {echo_server.address}" in done.stdout
    assert "1 in flight, 0 queued; in the engine 1 running, 0 waiting" in done.stdout
    assert "0.0/s of answers" in done.stdout
    assert "\x1b" not in done.stdout


def test_no_server_is_an_error_of_one_frame() -> None:
    done = subprocess.run(
        [*COMMAND, "--once", "--address", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def in_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the command in a new terminal; yields the other end of it."""
    here, there = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "110", "LINES": "40"}
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=there, stdout=there, stderr=there, env=environment
    ) as process:
        os.close(there)
        try:
            yield process, here
        finally:
            process.kill()
            os.close(here)


def read_until(terminal: int, text: bytes, seconds: float = 60.0) -> bytes:
    read, deadline = b"", time.monotonic() + seconds
    while text not in read:
        assert time.monotonic() < deadline, read
        read += os.read(terminal, 65536)
    return read


@pytest.mark.parametrize("leave", ["q", "ctrl-c"])
def test_it_is_live_until_it_is_left(shared_echo_server: ServerProcess, leave: str) -> None:
    address = shared_echo_server.address
    with in_terminal("--address", address, "--interval", "0.2") as (process, terminal):
        read_until(terminal, b"in flight")
        read_until(terminal, b"in flight")  # another frame
        if leave == "q":
            os.write(terminal, b"q")
        else:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_server_that_is_gone_is_told_and_asked_again(tmp_path: Path) -> None:
    """The client's own retries last less long than the absence of this engine."""
    settings = {"restart_backoff_seconds": "4"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        in_terminal("--address", server.address, "--interval", "0.2") as (process, terminal),
    ):
        read_until(terminal, b"in flight")
        os.kill(server.engine_process_id(), signal.SIGKILL)
        read_until(terminal, b"the engine is starting")
        read_until(terminal, b"in flight")
        os.write(terminal, b"q")
        assert process.wait(30) == 0
