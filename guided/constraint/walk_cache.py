"""Finished walks, shared by all constraints of a vocabulary and bounded in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from cachetools import LRUCache

from guided.tokens.walk import Walk

__all__ = ["WalkCache"]


class WalkCache:
    """Keeps the walks used last, up to ``max_bytes``; safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._walks: LRUCache[Hashable, Walk] = LRUCache(max_bytes, getsizeof=lambda w: w.nbytes)
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return int(self._walks.currsize)

    def get(self, key: Hashable, make: Callable[[], Walk]) -> Walk:
        """The walk under ``key``, made and kept if it is not there; its mask becomes read-only."""
        with self._lock:
            walk = self._walks.get(key)
        if walk is None:
            walk = make()
            walk.mask.flags.writeable = False
            with self._lock:
                if walk.nbytes <= self._walks.maxsize:
                    self._walks[key] = walk
        return walk
