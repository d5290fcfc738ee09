"""Controls how the allocator keeps memory that a process no longer uses."""

from __future__ import annotations

import ctypes
import os
from typing import Final

__all__ = ["allot_together", "give_back_memory"]

_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def allot_together() -> None:
    """Have all threads started from here on share one allocator arena, if it has several.

    By default glibc has eight arenas per core, unless the environment sets a number. An engine
    works on constraints in many threads, one at a time, and a server reads calls in some: what each
    frees in its own arena is unavailable to the next, and lies between kept blocks, so it cannot be
    given back.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    is_told = "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.getenv("GLIBC_TUNABLES", "")
    if mallopt is not None and not is_told:
        mallopt(_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Have the allocator return freed memory to the system, if it can (glibc's ``malloc_trim``).

    By default it keeps what long messages took, below the last block in use, for later ones.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
