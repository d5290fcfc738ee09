"""Notes which connections take part in calls, to tell which are worth least."""

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
"""Address and port of the remote end of a connection."""


class CallNotes:
    """Records the running and past calls of all connections."""

    def __init__(self) -> None:
        self._running: Counter[Peer] = Counter()
        self._called: dict[Peer, float] = {}

    def __len__(self) -> int:
        """Return the number of connections that something is noted for."""
        return len(self._called)

    def asks(self, peer: Peer) -> None:
        """Note that a call has begun, whether or not its whole message has arrived."""
        self._called[peer] = time.monotonic()

    @contextmanager
    def calling(self, peer: Peer) -> Iterator[None]:
        """Note that a call whose message has arrived runs in the block."""
        self._running[peer] += 1
        try:
            yield
        finally:
            self.asks(peer)
            self._running[peer] -= 1
            if not self._running[peer]:
                del self._running[peer]

    def of(self, key: K, peer: Peer, made: float) -> Connection[K]:
        """Return what is known of a connection that was made at this time."""
        return Connection(key, peer[0], made, self._called.get(peer), peer in self._running)

    def forget_all_but(self, peers: Collection[Peer]) -> None:
        """Forget connections that are no longer open."""
        self._called = {peer: self._called[peer] for peer in peers if peer in self._called}
