"""Ties the life of an engine process to that of its server."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

__all__ = ["die_with_parent", "ignore_terminal_signals", "is_orphan"]

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends (Linux only).

    This also reaches a process deep in a download; on other systems ``is_orphan`` must suffice.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def is_orphan(parent: int) -> bool:
    """Whether the process that started this one is gone."""
    return os.getppid() != parent


def ignore_terminal_signals() -> None:
    """Leave stopping this process to the server.

    An interrupt from a terminal and a service manager's SIGTERM reach the whole group of
    processes, and the server still needs its engine to finish what runs.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
