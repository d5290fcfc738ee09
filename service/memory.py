"""Memory that a process no longer uses, given back to the system."""

from __future__ import annotations

import ctypes

__all__ = ["give_back_memory"]


def give_back_memory() -> None:
    """Let the allocator return what was freed, where it can (glibc's ``malloc_trim``).

    By itself it keeps what long messages took for the next ones, below the last block in use.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
