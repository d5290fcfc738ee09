"""Values of which each thread has its own.

This module must stay interpreted: in a compiled class that derives from ``threading.local``, all
threads share the attributes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerThread"]

T = TypeVar("T")


class PerThread(Generic[T]):
    """One value per thread, made at its first ``get`` and dropped when the thread ends."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> T:
        """Return this thread's value."""
        try:
            value: T = self._local.value
        except AttributeError:
            value = self._local.value = self._make()
        return value
