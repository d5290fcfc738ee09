"""Raises the limit of file descriptors, and reserves some for starting an engine.

Every connection takes one. If callers took all of them, a lost engine could not be started again,
so a few are held in reserve and closed just before they are needed.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

__all__ = ["DescriptorReserve", "raise_descriptor_limit"]

_KEPT: Final = 48
"""A new process, its pipes, and two sockets of ZeroMQ with their threads take about 30."""


def raise_descriptor_limit() -> int:
    """Raise this process's descriptor limit to its maximum, and return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems call the limit infinite and refuse to set it so.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class DescriptorReserve:
    """Descriptors held in reserve, to be freed by ``lent``."""

    def __init__(self, count: int = _KEPT) -> None:
        self._count = count
        self._held: list[int] = []
        self._fill()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Free the descriptors for the block, and take back afterwards what is available."""
        self.close()
        try:
            yield
        finally:
            self._fill()

    def close(self) -> None:
        """Release all of them."""
        while self._held:
            os.close(self._held.pop())

    def _fill(self) -> None:
        # If no more are available, a smaller reserve has to do.
        with suppress(OSError):
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
