"""How the allocator keeps memory that a process no longer uses, and gives it back to the system."""

from __future__ import annotations

import ctypes
import os
from typing import Final

__all__ = ["allot_together", "give_back_memory"]

_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def allot_together() -> None:
    """Have all threads that begin from here on allot from one arena, where there are several.

    By itself glibc has eight for each core, unless the environment says how many. Work on
    constraints is done in many threads, one at a time: what each frees in an arena of its own is
    not there for the next, and lies between what is kept, so that it cannot be given back.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    is_told = "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.getenv("GLIBC_TUNABLES", "")
    if mallopt is not None and not is_told:
        mallopt(_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Let the allocator return what was freed, where it can (glibc's ``malloc_trim``).

    By itself it keeps what long messages took for the next ones, below the last block in use.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
