"""Reads files again whenever they change, without a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from guided.errors import GuidedError

__all__ = ["RenewedFiles"]

_Value = TypeVar("_Value")

_RETRY_SECONDS: Final = 1.0
"""Least time between two attempts to read files that are at fault and have not changed since."""

_log = structlog.get_logger()


class RenewedFiles(Generic[_Value]):
    """What files contain; while they are at fault, what they contained before."""

    def __init__(
        self,
        name: str,
        files: tuple[Path, ...],
        read: Callable[[], _Value],
        *,
        look_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the files; raises what ``read`` raises.

        ``name`` is what the log calls the files. They are looked at once in ``look_seconds`` at
        most.
        """
        self._name = name
        self._files = files
        self._read = read
        self._look_seconds = look_seconds
        self._clock = clock
        self._stamps = self._stamps_now()
        self._faulty: tuple[object, ...] | None = None
        """The stamps of files that could not be read."""
        self._next_look = clock() + look_seconds
        self._next_attempt = 0.0
        self.value = read()

    def renew(self) -> bool:
        """Read the files again if they have changed; returns whether ``value`` is new.

        Files at fault change nothing: most often one of them is still being written. They are
        reported once for each change, since strangers may cause a call for each connection.
        """
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + self._look_seconds
        stamps = self._stamps_now()
        if stamps == self._stamps or (stamps == self._faulty and now < self._next_attempt):
            return False
        try:
            self.value = self._read()
        except GuidedError as error:
            if stamps != self._faulty:
                _log.error(f"{self._name} not read again; what was read holds", error=str(error))
            self._faulty, self._next_attempt = stamps, now + _RETRY_SECONDS
            return False
        self._stamps, self._faulty = stamps, None
        _log.info(f"{self._name} read again", file=str(self._files[0]))
        return True

    def _stamps_now(self) -> tuple[object, ...]:
        return tuple(map(_stamp_of, self._files))


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    """Return values that change when a file changes; ``None`` if it does not exist."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
