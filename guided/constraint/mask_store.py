"""Finished masks: equal ones stored once, all of them bounded in bytes."""

from __future__ import annotations

import threading
from collections import deque
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from guided.tokens.mask import Mask, lone_token, same
from guided.tokens.walk import Walk

__all__ = ["HeldMask", "MaskStore"]

_LOOKED_AT = 2


class HeldMask:
    """A place for a mask, which the store takes away again when it needs the room."""

    __slots__ = ("__weakref__", "_lone", "fingerprint", "key", "mask", "uncertain", "used")

    def __init__(
        self, mask: Mask, fingerprint: int, uncertain: NDArray[np.int32], key: int
    ) -> None:
        self.mask: Mask | None = mask
        self.fingerprint = fingerprint
        self.uncertain = uncertain
        """Nodes of whose tokens the mask says nothing."""
        self.key = key
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
        mask.flags.writeable = False
        self.mask = mask
        self.holders = 0


class MaskStore:
    """Keeps masks up to ``max_bytes``; safe to use from several threads.

    When it is full it goes round the holders in the order in which they came, and empties those
    that were not used since the last round (the clock algorithm). Holders that nobody has any more,
    because their constraint is gone, are found on the way.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        """Bytes held now."""
        self._stored: dict[int, _Stored] = {}
        self._holders: deque[tuple[ref[HeldMask], int]] = deque()
        """Each with its key."""
        self._lock = threading.Lock()

    def keep(self, walk: Walk) -> tuple[HeldMask, Mask]:
        """A holder of the mask that was found, and the mask itself, which is read-only."""
        key = walk.fingerprint
        with self._lock:
            stored = self._stored.get(key)
            while stored is not None and not same(stored.mask, walk.mask):
                key += 1
                stored = self._stored.get(key)
            if stored is None:
                stored = self._stored[key] = _Stored(walk.mask.copy())
                self.nbytes += stored.mask.nbytes
            stored.holders += 1
            held = HeldMask(stored.mask, walk.fingerprint, walk.uncertain, key)
            self._holders.append((ref(held), key))
            # One comes and two are looked at: those that are gone are never more than the others.
            for _ in range(_LOOKED_AT):
                self._pass_one()
            while self.nbytes > self.max_bytes:
                self._evict()
        return held, stored.mask

    def __len__(self) -> int:
        """Holders that the store knows of."""
        return len(self._holders)

    def _pass_one(self) -> None:
        """Go on by one holder, and forget it if nobody has it."""
        holder, key = self._holders.popleft()
        if holder() is None:
            self._let_go(key)
        else:
            self._holders.append((holder, key))

    def _evict(self) -> None:
        holder, key = self._holders.popleft()
        held = holder()
        if held is not None:
            if held.used and self._holders:
                held.used = False
                self._holders.append((holder, key))
                return
            held.mask = None
        self._let_go(key)

    def _let_go(self, key: int) -> None:
        stored = self._stored[key]
        stored.holders -= 1
        if not stored.holders:
            del self._stored[key]
            self.nbytes -= stored.mask.nbytes
