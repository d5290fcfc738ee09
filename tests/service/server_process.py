"""Servers as processes of their own, as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from guided.client import Tls, wait_until_serving
from tests.service.forked_process import ForkedProcess

REAL_SERVER = (sys.executable, "-m", "guided_service")
ECHO_SERVER = (sys.executable, str(Path(__file__).with_name("echo_server.py")))


@dataclass(frozen=True)
class ServerProcess:
    """A server that listens."""

    process: subprocess.Popen[str] | ForkedProcess
    address: str
    log: Path
    """Its standard error."""

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        return self.process.wait(timeout)

    def has_engine(self) -> bool:
        return bool(self._children())

    def engine_process_id(self) -> int:
        """The one child of the server, or, if that is a standby, its one child."""
        (child,) = self._children()
        return next(iter(children_of(child)), child)

    def standby_process_id(self) -> int:
        """The one child of the server, which has or will have the engine as its child."""
        (child,) = self._children()
        return child

    def _children(self) -> list[int]:
        return children_of(self.process.pid)


def children_of(process: int) -> list[int]:
    """The living processes that the first thread of a process has started."""
    return [int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@contextmanager
def listening(
    command: Sequence[str], log: Path, settings: dict[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A server on a free port, killed at the end unless it has ended before.

    For the plain command ``ECHO_SERVER`` it is forked from a process that has loaded it.
    """
    variables = {f"GUIDED_{name.upper()}": value for name, value in (settings or {}).items()}
    # One thread: another test runs on the other core.
    usual = {"GUIDED_PORT": "0", "GUIDED_LOG_FORMAT": "console", "GUIDED_THREADS": "1"}
    environment = os.environ | usual | variables
    with (
        log.open("w") as errors,
        _start(command, errors, environment) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            _, _, address = line.strip().partition("listening on ")
            assert address, f"said {line!r} and logged {log.read_text()!r}"
            yield ServerProcess(process, address, log)
        finally:
            process.kill()


def _start(
    command: Sequence[str], errors: IO[str], environment: dict[str, str]
) -> subprocess.Popen[str] | ForkedProcess:
    if command == ECHO_SERVER:
        return ForkedProcess(environment, errors)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    )


@contextmanager
def serving(
    command: Sequence[str],
    log: Path,
    settings: dict[str, str] | None = None,
    *,
    timeout: float = 30.0,
    tls: bool | Tls = False,
) -> Iterator[ServerProcess]:
    """A server whose engine is ready."""
    with listening(command, log, settings) as server:
        wait_until_serving(server.address, timeout, tls=tls)
        yield server
