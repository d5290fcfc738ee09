"""Undoes reference cycles as soon as nothing uses them.

Objects in a cycle, and all that they refer to, live until a collection finds them, which takes
tenths of a second where constraints are large, in the middle of a step. So what has to refer to
itself is released by the object that owns it, when that is dropped.

This module is compiled, and so have to be the functions that are called: Python code may let
another thread run, which must not happen while an object is being freed. (mypyc gives the memory
of a closure to the next one before it has let go of what the closure refers to.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["AtDrop"]


class AtDrop:
    """Calls a function once nothing refers to this object any more.

    Neither the function nor anything that it refers to may refer to the owner. Its constructor must
    never fail: mypyc's ``__del__`` of an object that was not made completely crashes the process.
    """

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[], object]) -> None:
        self._release: Final = release

    def __del__(self) -> None:
        self._release()
