"""Gives the next place to the waiting client that has had the least so far.

What a client has had is counted in tokens of prompts and answers, divided by its weight, like the
virtual token counters of Sheng et al. (2024). A running request counts what the client's requests
have cost so far. A new client starts at the level of the least served of the present ones: it is
served among the next, with nothing saved up from before.

::

    client   tokens had   running   a request   weight   position
    alice           900         2         100        1       1100
    bob             800         2         100        1       1000    ◀ the next place
    carol          2400         0         100        2       1200

A client's own requests are ordered by queue key: arrival and priority.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

__all__ = ["FairShares", "Share", "Waiter"]

_MEMORY: Final = 1 / 8
"""The weight of the latest request in the estimated cost of a client's requests."""


@dataclass(order=True, slots=True)
class Waiter:
    """A request that waits for a place."""

    queue_key: float
    number: int
    """Order of arrival, which decides between equal keys."""
    turn: asyncio.Future[None] = field(compare=False)


class Share:
    """One client's share: what it has had, and its waiting requests."""

    def __init__(self, weight: float, had: float, expected: float) -> None:
        self.weight = weight
        self.had = had
        """Tokens per unit of weight."""
        self.running = 0
        self.num_waiting = 0
        self._expected = expected
        """Estimated cost of one request: first what was requested, then what recent ones used."""
        self._has_settled = False
        self._line: list[Waiter] = []

    @property
    def position(self) -> float:
        """What it has had plus what its running requests may cost; the smallest is served next."""
        return self.had + self.running * self._expected / self.weight

    @property
    def is_idle(self) -> bool:
        """Whether none of its requests waits or runs."""
        return not self.running and not self.num_waiting

    def settle(self, cost: float) -> None:
        """Count what a finished request used."""
        self.running -= 1
        self.had += cost / self.weight
        # What was requested may be far from what is used.
        self._expected += (cost - self._expected) * (_MEMORY if self._has_settled else 1)
        self._has_settled = True

    def join(self, waiter: Waiter) -> None:
        """Add a waiting request."""
        heapq.heappush(self._line, waiter)
        self.num_waiting += 1

    def leave(self) -> None:
        """Stop counting a request whose turn is done: it was admitted, refused or has left."""
        self.num_waiting -= 1
        # Requests that left are skipped when they come first, and purged when they are many.
        if len(self._line) > 2 * self.num_waiting + 16:
            self._line = [*self.waiters()]
            heapq.heapify(self._line)

    def first(self) -> Waiter | None:
        """Return the request that is served next, or ``None`` if none waits."""
        while self._line and self._line[0].turn.done():
            heapq.heappop(self._line)
        return self._line[0] if self._line else None

    def last(self) -> Waiter | None:
        """Return the request that would be served last, or ``None`` if none waits."""
        return max(self.waiters(), default=None)

    def waiters(self) -> Iterator[Waiter]:
        """Yield all waiting requests."""
        return (each for each in self._line if not each.turn.done())


class FairShares:
    """The shares of all clients that have requests here; others are forgotten."""

    def __init__(self) -> None:
        self._shares: dict[str, Share] = {}
        self.num_waiting = 0

    def __iter__(self) -> Iterator[Share]:
        return iter(self._shares.values())

    def of(self, client: str, weight: float, asked: float) -> Share:
        """Return the share of a client that requests this many tokens, creating it if needed."""
        share = self._shares.get(client)
        if share is None:
            # Count what others have had for certain, not what their running requests may cost.
            least = min((each.had for each in self), default=0.0)
            share = self._shares[client] = Share(weight, least, asked)
        share.weight = weight
        return share

    def find(self, client: str) -> Share | None:
        """Return the share of a client, or ``None`` if it has no requests here."""
        return self._shares.get(client)

    def join(self, share: Share, waiter: Waiter) -> None:
        """Add a waiting request."""
        share.join(waiter)
        self.num_waiting += 1

    def leave(self, share: Share) -> None:
        """Stop counting a request whose turn is done."""
        share.leave()
        self.num_waiting -= 1

    def forget(self, client: str) -> None:
        """Drop the share of a client that has no requests here any more."""
        share = self._shares.get(client)
        if share is not None and share.is_idle:
            del self._shares[client]

    def next(self, most_running: int) -> tuple[Share, Waiter] | None:
        """Return the next request to serve, of the clients that run fewer than ``most_running``."""
        firsts = [
            (share.position, first, share)
            for share in self
            if share.running < most_running and (first := share.first()) is not None
        ]
        if not firsts:
            return None
        # Among clients that have had equally much, the first to come is first.
        _, first, share = min(firsts, key=itemgetter(0, 1))
        return share, first
