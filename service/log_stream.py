"""The stream of the log, which never waits for its reader.

::

    line ──▶ room for it? ──▶ pipe, terminal, file
               │ no: lost, and counted; the next line that finds room is preceded by the count
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

__all__ = ["LossyStream", "wait_for_room"]


def _tell_lost(count: int) -> str:
    """Return the line that tells how many were lost."""
    return f"{count} lines of the log were lost, because nothing took them\n"


def wait_for_room() -> None:
    """Wait until standard error takes a line; for threads that delay nobody else."""
    poll = select.poll()
    with suppress(io.UnsupportedOperation, ValueError, OSError):
        poll.register(sys.stderr.fileno(), select.POLLOUT)
        poll.poll()


class LossyStream:
    """Writes lines to another stream, and loses those that it has no room for.

    So neither a full disk nor a reader that has stopped reading can stop the server through its
    log. May be used from several threads, and in forks.
    """

    def __init__(self, stream: TextIO, tell_lost: Callable[[int], str] = _tell_lost) -> None:
        """``tell_lost`` returns the line about a number of lost lines."""
        self._stream = stream
        self._tell_lost = tell_lost
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        with suppress(io.UnsupportedOperation):
            self._descriptor = _never_waiting(stream.fileno())
        self._begun = b""
        """The rest of a line of which only a part found room."""
        self._num_lost = 0

    def write(self, line: str) -> int:
        """Write a line, or lose it."""
        with self._lock:
            self._begun = self._begun[self._send(self._begun) :]
            told = self._tell_lost(self._num_lost) if self._num_lost else ""
            data = (told + line).encode(errors="backslashreplace")
            sent = 0 if self._begun else self._send(data)
            if sent:
                self._begun, self._num_lost = data[sent:], 0
            else:
                self._num_lost += 1
        return len(line)

    def flush(self) -> None:
        """Do nothing: lines are written at once."""

    def _send(self, data: bytes) -> int:
        """Return how many bytes found room."""
        try:
            if self._descriptor is None:
                self._stream.write(data.decode())
                self._stream.flush()
                return len(data)
            return _write_some(self._descriptor, data)
        except OSError:
            return 0


_AT_ONCE: Final = select.PIPE_BUF
"""Bytes for which a pipe has room where it is ready to be written to; they stay together."""


def _write_some(descriptor: int, data: bytes) -> int:
    """Return how many bytes were written before the descriptor had no room."""
    poll, sent = select.poll(), 0
    poll.register(descriptor, select.POLLOUT)
    with suppress(BlockingIOError):
        while sent < len(data) and poll.poll(0):
            sent += os.write(descriptor, data[sent : sent + _AT_ONCE])
    return sent


def _never_waiting(descriptor: int) -> int:
    """Return a descriptor of the same file whose writes never wait, if the system gives one.

    Else another process may take the room that was just found. The given one is left as it is:
    other programs share its mode.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        with suppress(OSError):
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return descriptor
