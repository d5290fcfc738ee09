"""Which connections have to go where they are nearly as many as there may be.

Nobody who takes part in a call goes. Else those of whoever has most go first, of them those over
which nothing was ever asked, and then those that have been quiet for longest. So a crowd of idle
connections from one place costs that place, and not the first call of a stranger.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["Connection", "address_of", "too_many"]

K = TypeVar("K")

_OF_ONE_PLACE: Final = 64
"""Bits of an address of IPv6 that a network gives to one customer; the others it may choose."""

_SHARE: Final = 4
"""One part in so many of the connections that there may be is kept free for those who come."""


@dataclass(frozen=True, slots=True)
class Connection(Generic[K]):
    """A connection as far as its worth goes."""

    key: K
    host: str
    made: float
    """When it was first seen."""
    called: float | None
    """When it last took part in a call, if it ever did."""
    is_busy: bool
    """Whether it does now."""

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Rises with what keeps it."""
        if self.called is None:
            return self.is_busy, False, self.made
        return self.is_busy, True, self.called


def too_many(connections: Iterable[Connection[K]], most: int) -> list[K]:
    """Those that have to go so that there is room, of ``most``, for some that come."""
    places: dict[str, list[Connection[K]]] = defaultdict(list)
    for each in sorted(connections, key=lambda each: each.worth, reverse=True):
        places[_place(each.host)].append(each)
    # A connection is as dear as the number of those that its place would rather keep is small.
    ranked = [(rank, each) for kept in places.values() for rank, each in enumerate(kept)]
    ranked.sort(key=lambda pair: pair[0], reverse=True)
    excess = len(ranked) - (most - most // _SHARE)
    return [each.key for _, each in ranked if not each.is_busy][: max(0, excess)]


def address_of(host: str) -> str:
    """An address as it is written everywhere: without a zone, and IPv4 never as IPv6."""
    found = ipaddress.ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _place(host: str) -> str:
    if ":" not in host:
        return host
    return str(ipaddress.ip_network(f"{host}/{_OF_ONE_PLACE}", strict=False))
