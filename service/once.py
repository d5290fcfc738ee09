"""A value that is let go of by whoever takes it."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """Passed on through calls that would each keep the value until they return."""

    def __init__(self, value: T) -> None:
        self._values = [value]

    def look(self) -> T:
        """The value, which stays."""
        return self._values[0]

    def take(self) -> T:
        """The value, which is gone from here."""
        return self._values.pop()
