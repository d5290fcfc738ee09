"""Notes calls by their connections, and chooses those to end when their number nears the limit.

A connection that takes part in a call is never ended. The others are taken from the place that has
most: first those that never made a call, then those quiet for longest. So a crowd of idle
connections from one place costs that place, and not a stranger's first call.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

__all__ = ["CallNotes", "Connection", "Peer", "address_of", "too_many"]

K = TypeVar("K")

Peer: TypeAlias = tuple[str, int]
"""Address and port of the remote end of a connection."""

_OF_ONE_PLACE: Final = 64
"""Bits of an IPv6 address that a network assigns to one customer, who chooses the rest."""

_SHARE: Final = 4
"""One in this many of the allowed connections is kept free for new ones, at least one."""


@dataclass(frozen=True, slots=True)
class Connection(Generic[K]):
    """What the worth of a connection depends on."""

    key: K
    host: str
    made: float
    """When it was first seen."""
    called: float | None
    """When it last took part in a call, if it ever did."""
    is_busy: bool
    """Whether it takes part in a call now."""

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Sort key: the greater, the longer the connection is kept."""
        if self.called is None:
            return self.is_busy, False, self.made
        return self.is_busy, True, self.called


def too_many(connections: Iterable[Connection[K]], most: int) -> list[K]:
    """Return the connections to end so that some of ``most`` places are free for new ones."""
    places: dict[str, list[Connection[K]]] = defaultdict(list)
    for each in sorted(connections, key=lambda each: each.worth, reverse=True):
        places[_place(each.host)].append(each)
    # A connection is worth more the fewer connections its place prefers to it.
    ranked = [(rank, each) for kept in places.values() for rank, each in enumerate(kept)]
    ranked.sort(key=lambda pair: pair[0], reverse=True)
    excess = len(ranked) - (most - max(1, most // _SHARE))
    return [each.key for _, each in ranked if not each.is_busy][: max(0, excess)]


def address_of(host: str) -> str:
    """Return an address in its one canonical form: without a zone, and IPv4 never as IPv6."""
    found = ipaddress.ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _place(host: str) -> str:
    if ":" not in host:
        return host
    return str(ipaddress.ip_network(f"{host}/{_OF_ONE_PLACE}", strict=False))


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
