"""When garbage is collected that refers to itself: where nobody waits for it.

Python goes through all objects there are whenever they have grown by a quarter, which takes tenths
of a second where constraints are large, in the middle of somebody's step. So the collection of old
objects is put off until the engine has nothing to do, or memory has grown much. Young objects are
collected as before, which takes a millisecond.
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
"""Growth of memory after which old objects are collected though there is work."""
_IDLE_BYTES: Final = 16 * 2**20
"""Growth after which they are collected where there is none."""
_LOOK_SECONDS: Final = 1.0
_STATM: Final = Path("/proc/self/statm")


class Garbage:
    """Collects old objects at good moments, for the process that the engine has to itself."""

    def __init__(self) -> None:
        """From here on they are not collected otherwise. Where memory cannot be told they are."""
        self._is_known = _STATM.exists()
        if self._is_known:
            young, middle, _ = gc.get_threshold()
            gc.set_threshold(young, middle, _NEVER)
        self._held = _resident() if self._is_known else 0
        self._next_look = 0.0

    def collect(self, *, is_idle: bool) -> None:
        """Collect old objects if this is the moment for it."""
        now = time.monotonic()
        if not self._is_known or now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        if _resident() - self._held > (_IDLE_BYTES if is_idle else _MOST_BYTES):
            gc.collect()
            if is_idle:
                give_back_memory()
            self._held = _resident()


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(_STATM.read_text().split()[1]) * resource.getpagesize()
