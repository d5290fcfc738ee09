"""Undoes reference cycles as soon as nothing uses them.

Objects in a cycle, and all that they refer to, live until a collection finds them, which takes
tenths of a second where constraints are large, in the middle of a step. So what has to refer to
itself is released by the object that owns it: when that is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["AtDrop"]


class AtDrop:
    """Calls a function once nothing refers to this object any more.

    Neither the function nor anything that it refers to may refer to the owner. This module is not
    compiled: mypyc's ``__del__`` of an object whose constructor failed crashes the process.
    """

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[], object]) -> None:
        self._release: Final = release

    def __del__(self) -> None:
        self._release()
