"""A value that is released when it is taken."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """Passes a value through calls that would otherwise each keep it until they return."""

    def __init__(self, value: T) -> None:
        self._values = [value]

    def look(self) -> T:
        """Return the value and keep it."""
        return self._values[0]

    def take(self) -> T:
        """Return the value and release it."""
        return self._values.pop()
