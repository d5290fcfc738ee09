"""Things of which each thread has one of its own.

This module is interpreted: a class that is compiled and derives from ``threading.local`` has the
same attributes in all threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["OfThread"]

T = TypeVar("T")


class OfThread(Generic[T]):
    """One thing a thread, made when the thread first asks for it, and gone with the thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> T:
        """That of this thread."""
        try:
            found: T = self._local.thing
        except AttributeError:
            found = self._local.thing = self._make()
        return found
