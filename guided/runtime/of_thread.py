"""Values of which each thread has its own.

This module must stay interpreted: in a compiled class that derives from ``threading.local``, all
threads share the attributes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["OfThread"]

T = TypeVar("T")


class OfThread(Generic[T]):
    """One value per thread, made when the thread first asks for it, and gone with the thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> T:
        """Return this thread's value."""
        try:
            found: T = self._local.thing
        except AttributeError:
            found = self._local.thing = self._make()
        return found
