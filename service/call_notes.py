"""Who takes part in calls, by connection: what says which connections are worth least."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from guided_service.connection_worth import Connection

__all__ = ["CallNotes", "Peer"]

K = TypeVar("K")

Peer: TypeAlias = tuple[str, int]
"""Address and port of the other end of a connection."""


class CallNotes:
    """The calls of all connections, those that have ended among them."""

    def __init__(self) -> None:
        self._running: Counter[Peer] = Counter()
        self._called: dict[Peer, float] = {}

    def __len__(self) -> int:
        """Connections of which something is kept."""
        return len(self._called)

    def asks(self, peer: Peer) -> None:
        """Note that a call has begun, whether or not all of its message has come."""
        self._called[peer] = time.monotonic()

    @contextmanager
    def calling(self, peer: Peer) -> Iterator[None]:
        """Note that there is a whole call, which runs in the block."""
        self._running[peer] += 1
        try:
            yield
        finally:
            self.asks(peer)
            self._running[peer] -= 1
            if not self._running[peer]:
                del self._running[peer]

    def of(self, key: K, peer: Peer, made: float) -> Connection[K]:
        """What is known of a connection that was made at a time."""
        return Connection(key, peer[0], made, self._called.get(peer), peer in self._running)

    def forget_all_but(self, peers: Collection[Peer]) -> None:
        """Keep nothing of connections that are not open any more."""
        self._called = {peer: self._called[peer] for peer in peers if peer in self._called}
