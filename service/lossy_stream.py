"""A log that a full disk does not end the server by."""

from __future__ import annotations

from contextlib import suppress
from typing import TextIO

__all__ = ["LossyStream"]


class LossyStream:
    """Writes as another stream does, and loses what cannot be written: no disk, no reader."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or lose the text."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, or lose it."""
        with suppress(OSError):
            self._stream.flush()
