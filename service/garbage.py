"""Collects cyclic garbage when nobody waits.

Python scans all objects whenever their number has grown by a quarter, which takes tenths of a
second where constraints are large, in the middle of a step. So the collection of old objects is
delayed until the engine is idle or memory has grown much. Young objects are collected as before, in
about a millisecond. Little is left to collect: what is made for a request and its constraint is
freed when it is dropped (``guided/runtime/at_drop.py``).
"""

from __future__ import annotations

import gc
import resource
import time
from pathlib import Path
from typing import Final

from guided_service.memory import give_back_memory

__all__ = ["Garbage"]

_NEVER: Final = 2**30
_MOST_BYTES: Final = 512 * 2**20
"""Growth of memory after which old objects are collected even while there is work, unless it is
memory that the allocator keeps although nothing uses it."""
_IDLE_BYTES: Final = 16 * 2**20
"""Growth of memory after which old objects are collected when idle."""
_LOOK_SECONDS: Final = 1.0
"""Least time between two looks at the memory."""
_BUSY_LOOK_SECONDS: Final = 10.0
"""The same after memory was given back while there was work, which may need it again."""
_STATM: Final = Path("/proc/self/statm")


class Garbage:
    """Collects old objects at good moments; for the engine's own process."""

    def __init__(self) -> None:
        """Stop Python's own collection of old objects, unless memory cannot be measured here."""
        self._is_known = _STATM.exists()
        if self._is_known:
            young, middle, _ = gc.get_threshold()
            gc.set_threshold(young, middle, _NEVER)
        self._held = _resident() if self._is_known else 0
        self._next_look = 0.0

    def collect(self, *, is_idle: bool) -> None:
        """Collect old objects if this is a good moment."""
        now = time.monotonic()
        if not self._is_known or now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        resident = _resident()
        if resident < self._held - _MOST_BYTES:
            self._held = resident
        bound = self._held + (_IDLE_BYTES if is_idle else _MOST_BYTES)
        if resident > bound and not is_idle:
            # Tens of milliseconds, where a collection may take hundreds and find nothing.
            give_back_memory()
            self._next_look = now + _BUSY_LOOK_SECONDS
        if resident > bound and _resident() > bound:
            gc.collect()
            # Also if there is work: else the next bound would count what is free already, and rise
            # with each collection.
            give_back_memory()
            self._held = _resident()


def _resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(_STATM.read_text().split()[1]) * resource.getpagesize()
