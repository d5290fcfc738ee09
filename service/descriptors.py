"""File descriptors: as many as the system allows, and some kept for starting an engine.

Every connection takes one. Where callers have taken all of them, a lost engine could not be
started again, so a few are held open for nothing and closed just before they are needed.
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
    """Let this process open as many descriptors as it may; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems call the limit infinite and refuse to set it so.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class DescriptorReserve:
    """Descriptors that are held for nothing but ``lent``."""

    def __init__(self, count: int = _KEPT) -> None:
        self._count = count
        self._held: list[int] = []
        self._fill()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Leave the descriptors free in the block, and take them back afterwards as they come."""
        self.close()
        try:
            yield
        finally:
            self._fill()

    def close(self) -> None:
        """Give all of them back."""
        while self._held:
            os.close(self._held.pop())

    def _fill(self) -> None:
        # Where there are none left, those that there are have to do.
        with suppress(OSError):
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
