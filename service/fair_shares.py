"""Fair shares: of the clients that wait, the next place goes to the one that has had least.

What a client has had is counted in tokens of prompts and answers, divided by its weight, as the
virtual token counters of Sheng et al. (2024) do; a request that runs counts as the client's
requests have so far. A client that comes anew starts where the least served of those that are
there stands: it is served among the next, and has nothing saved up from before.

::

    client   tokens had   running   a request   weight   position
    alice           900         2         100        1       1100
    bob             800         2         100        1       1000    ◀ the next place
    carol          2400         0         100        2       1200

Within a client the order is that of queue keys: arrival and priority.
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
"""How much the latest request counts in what a client's requests cost."""


@dataclass(order=True, slots=True)
class Waiter:
    """A request that waits for a place."""

    queue_key: float
    number: int
    """Of equal keys, who came first."""
    turn: asyncio.Future[None] = field(compare=False)


class Share:
    """What one client has had, and its requests that wait."""

    def __init__(self, weight: float, had: float, expected: float) -> None:
        self.weight = weight
        self.had = had
        """Tokens, for each unit of weight."""
        self.running = 0
        self.num_waiting = 0
        self._expected = expected
        """What a request of its costs: as the first asked for, then as the latest used."""
        self._has_settled = False
        self._line: list[Waiter] = []

    @property
    def position(self) -> float:
        """What it has had with what runs; the smallest is served next."""
        return self.had + self.running * self._expected / self.weight

    @property
    def is_idle(self) -> bool:
        """Whether none of its requests waits or runs."""
        return not self.running and not self.num_waiting

    def settle(self, cost: float) -> None:
        """Count what a request used that has run."""
        self.running -= 1
        self.had += cost / self.weight
        # What was asked for may be far from what is used.
        self._expected += (cost - self._expected) * (_MEMORY if self._has_settled else 1)
        self._has_settled = True

    def join(self, waiter: Waiter) -> None:
        """Let a request wait."""
        heapq.heappush(self._line, waiter)
        self.num_waiting += 1

    def leave(self) -> None:
        """Count a request no more whose turn is done: it was let in, sent away, or has left."""
        self.num_waiting -= 1
        # Those that left are passed over when they come first; many of them are cleared away.
        if len(self._line) > 2 * self.num_waiting + 16:
            self._line = [*self.waiters()]
            heapq.heapify(self._line)

    def first(self) -> Waiter | None:
        """The request that is served next, or ``None`` where none waits."""
        while self._line and self._line[0].turn.done():
            heapq.heappop(self._line)
        return self._line[0] if self._line else None

    def last(self) -> Waiter:
        """The request that would be served last; there must be one."""
        return max(self.waiters())

    def waiters(self) -> Iterator[Waiter]:
        """All that wait."""
        return (each for each in self._line if not each.turn.done())


class FairShares:
    """The share of each client that has requests here; the others are forgotten."""

    def __init__(self) -> None:
        self._shares: dict[str, Share] = {}
        self.num_waiting = 0

    def __iter__(self) -> Iterator[Share]:
        return iter(self._shares.values())

    def of(self, client: str, weight: float, asked: float) -> Share:
        """The share of a client, which has asked for so many tokens."""
        share = self._shares.get(client)
        if share is None:
            # What others have had for certain, and not what their requests may cost yet.
            least = min((each.had for each in self), default=0.0)
            share = self._shares[client] = Share(weight, least, asked)
        share.weight = weight
        return share

    def find(self, client: str) -> Share | None:
        """The share of a client, or ``None`` where it has nothing here."""
        return self._shares.get(client)

    def join(self, share: Share, waiter: Waiter) -> None:
        """Let a request wait."""
        share.join(waiter)
        self.num_waiting += 1

    def leave(self, share: Share) -> None:
        """Count a request no more whose turn is done."""
        share.leave()
        self.num_waiting -= 1

    def forget(self, client: str) -> None:
        """Drop the share of a client that has nothing here any more."""
        share = self._shares.get(client)
        if share is not None and share.is_idle:
            del self._shares[client]

    def next(self, most_running: int) -> tuple[Share, Waiter] | None:
        """Whose request is served next, of the clients that run fewer than so many."""
        firsts = [
            (share.position, first, share)
            for share in self
            if share.running < most_running and (first := share.first()) is not None
        ]
        if not firsts:
            return None
        # Where clients have had as much, who came first is first.
        _, first, share = min(firsts, key=itemgetter(0, 1))
        return share, first
