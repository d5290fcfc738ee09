"""A server of the default model, for as long as an example needs it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from guided import GuidedError, wait_until_serving

__all__ = ["served"]

_START_SECONDS = 600.0
_DRAIN_SECONDS = 30.0


@contextmanager
def served(console: Console) -> Iterator[str]:
    """Run a server and yield its address once it serves; drains it by SIGTERM at the end."""
    command = [sys.executable, "-m", "guided_service", "--port", "0", "--no-log-requests"]
    console.print("starting the server (the first time it fetches and converts its model)")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip().rpartition(" ")[2]
        if not address:
            raise SystemExit(f"the server ended with status {server.wait()}")
        _wait_until_serving(server, address, console)
        yield address
        console.print("stopping the server with SIGTERM")
        server.send_signal(signal.SIGTERM)
        status = server.wait(_DRAIN_SECONDS)
        if status != 0:
            raise SystemExit(f"the server did not drain: status {status}")
        console.print("the server drained and ended with status 0")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def _wait_until_serving(server: subprocess.Popen[str], address: str, console: Console) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            wait_until_serving(address, timeout=1)
        except GuidedError:
            if server.poll() is not None:
                raise SystemExit(f"the server ended with status {server.returncode}") from None
            if time.monotonic() > deadline:
                raise
        else:
            console.print(f"serving at {address}")
            return
