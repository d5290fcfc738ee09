"""Servers over the echo engine that a zygote forks (``echo_zygote``), one zygote a test process."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Self

__all__ = ["ForkedProcess"]

_ROOT = Path(__file__).parents[2]


class ForkedProcess:
    """The part of ``subprocess.Popen`` that tests use."""

    def __init__(self, environment: dict[str, str], errors: IO[str]) -> None:
        reading, out = os.pipe()
        told, news = os.pipe()
        self.stdout: IO[str] = os.fdopen(reading, encoding="utf-8")
        self._news = os.fdopen(told, "rb", buffering=0)
        message = json.dumps(environment).encode()
        socket.send_fds(_zygote(), [message], [out, errors.fileno(), news])
        os.close(out)
        os.close(news)
        line = self._news.readline()
        assert line, "the zygote has ended"
        self.pid = int(line)
        self._handle = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.stdout.close()
        self._news.close()
        os.close(self._handle)

    def poll(self) -> int | None:
        """The exit status, once there is one."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, which is minus the number of a signal that ended it."""
        if self.returncode is None:
            ready, _, _ = select.select([self._news], [], [], timeout)
            if not ready:
                assert timeout is not None
                raise subprocess.TimeoutExpired("the echo server", timeout)
            self.returncode = int(self._news.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            # It may have ended already, with the report of that still on its way.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


@cache
def _zygote() -> socket.socket:
    """The socket that takes orders for servers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            (sys.executable, "-m", "tests.service.echo_zygote", str(theirs.fileno())),
            stdout=subprocess.DEVNULL,  # no terminal, like the pipe of a server
            pass_fds=(theirs.fileno(),),
            cwd=_ROOT,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
