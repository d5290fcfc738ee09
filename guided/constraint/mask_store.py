"""Finished masks: equal ones stored once, all of them bounded in bytes."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
from numpy.typing import NDArray

from guided.tokens.mask import Mask, fingerprint, lone_token, same

__all__ = ["HeldMask", "MaskStore"]


class HeldMask:
    """A place for a mask, which the store takes away again when it needs the room."""

    __slots__ = ("_lone", "key", "mask", "uncertain", "used")

    def __init__(self, uncertain: NDArray[np.int32]) -> None:
        self.mask: Mask | None = None
        self.uncertain = uncertain
        """Nodes of whose tokens the mask says nothing."""
        self.key = 0
        self.used = True
        """Whether it was asked for since the store last looked."""
        self._lone: int | None = -1

    def lone(self, mask: Mask) -> int | None:
        """The token that alone is allowed, ``None`` where there are more or none."""
        if self._lone == -1:
            self._lone = lone_token(mask)
        return self._lone


class _Stored:
    __slots__ = ("holders", "mask")

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.holders = 0


class MaskStore:
    """Keeps masks up to ``max_bytes``; safe to use from several threads.

    When it is full it goes round the holders in the order in which they came, and empties those
    that were not used since the last round (the clock algorithm).
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        """Bytes held now."""
        self._stored: dict[int, _Stored] = {}
        self._holders: deque[HeldMask] = deque()
        self._lock = threading.Lock()

    def keep(self, mask: Mask, uncertain: NDArray[np.int32]) -> HeldMask:
        """A holder of the mask, which becomes read-only."""
        mask.flags.writeable = False
        held = HeldMask(uncertain)
        key = int(fingerprint(mask))
        with self._lock:
            stored = self._stored.get(key)
            while stored is not None and not same(stored.mask, mask):
                key += 1
                stored = self._stored.get(key)
            if stored is None:
                stored = self._stored[key] = _Stored(mask)
                self.nbytes += mask.nbytes
            stored.holders += 1
            held.mask, held.key = stored.mask, key
            self._holders.append(held)
            while self.nbytes > self.max_bytes:
                self._evict()
        return held

    def _evict(self) -> None:
        held = self._holders.popleft()
        if held.used and self._holders:
            held.used = False
            self._holders.append(held)
            return
        held.mask = None
        stored = self._stored[held.key]
        stored.holders -= 1
        if not stored.holders:
            del self._stored[held.key]
            self.nbytes -= stored.mask.nbytes
