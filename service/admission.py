"""Limits the requests in flight; more wait in a bounded queue, and beyond it are refused.

::

    request ──▶ place free? ──yes──▶ in flight
                  │ no
                  ▼
                queue: of each client by queue key (arrival and priority), clients by fair shares,
                  │ full                                          each at its own deadline
                  ▼
                the longest queue of a client gives way, or else OverloadedError

No client takes more than a part of the places, so that another client's first request finds one at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

from guided.errors import DeadlineExceededError, ServiceUnavailableError
from guided_service.fair_shares import FairShares, Share, Waiter

__all__ = ["Admission", "Client", "OverloadedError", "Place"]


class OverloadedError(ServiceUnavailableError):
    """The server has reached its limits of requests in flight and waiting."""

    def __init__(
        self, message: str, *, hint: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds
        """When to try again; ``None`` leaves that to the server's settings."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client that a request belongs to, with its weight."""

    name: str = ""
    weight: float = 1.0
    """Its share relative to the usual weight of 1."""


ANYBODY = Client()


@dataclass(slots=True)
class Place:
    """A place that a request holds."""

    cost: float
    """What the request counts in its client's share, in tokens; corrected when it ends."""
    ahead: int
    """How many places its client already held."""


class Admission:
    """Gives places to requests and queues those that find none."""

    def __init__(self, places: int, queued: int = 0, places_of_one: int | None = None) -> None:
        """``queued`` requests may wait for a place; no client holds more than ``places_of_one``."""
        self._places = places
        self._places_of_one = places if places_of_one is None else places_of_one
        self._queued = queued
        self._taken = 0
        self._shares = FairShares()
        self._numbers = count()
        self._is_closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def in_flight(self) -> int:
        """Requests that hold a place."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._shares.num_waiting

    def check_room(self, requests: int, client: Client = ANYBODY) -> None:
        """Raise ``OverloadedError`` unless this many more would find a place or may wait."""
        if self._is_closed:
            raise _stopping()
        if self._must_wait(requests, client) is None:
            self._giving_way(requests, client)

    @asynccontextmanager
    async def admitted(
        self,
        queue_key: float,
        *,
        seconds: float | None = None,
        client: Client = ANYBODY,
        cost: float = 1.0,
    ) -> AsyncIterator[Place]:
        """Hold a place, waiting for it at most ``seconds``.

        Raises ``OverloadedError`` if the queue is full and ``DeadlineExceededError`` if no place
        comes free in time.
        """
        try:
            async with asyncio.timeout(seconds):
                share = await self._take(queue_key, client, cost)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "the deadline came while the request waited for a place",
                hint="allow more time, or send less at once",
            ) from error
        place = Place(cost, ahead=share.running - 1)
        try:
            yield place
        finally:
            share.settle(place.cost)
            self._release()
            self._shares.forget(client.name)

    async def wait_until_empty(self) -> None:
        """Wait until no request is in flight."""
        await self._empty.wait()

    def close(self) -> None:
        """Admit no more requests; those waiting are refused and asked to try again."""
        self._is_closed = True
        for share in self._shares:
            for waiter in [*share.waiters()]:
                self._send_away(share, waiter, _stopping())

    async def _take(self, queue_key: float, client: Client, cost: float) -> Share:
        """Return the client's share once the client has a place."""
        self.check_room(1, client)
        while (must_wait := self._must_wait(1, client)) is None:
            longest = self._giving_way(1, client)
            last = longest.last()
            if last is None:
                # Callers that left all at once still count until their tasks run.
                must_wait = 1
                break
            self._send_away(longest, last, _crowding())
        share = self._shares.of(client.name, client.weight, cost)
        if not must_wait:
            self._enter(share)
            return share
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = Waiter(queue_key, next(self._numbers), turn)
        self._shares.join(share, waiter)
        try:
            await turn
        except asyncio.CancelledError:
            # Its deadline passed or its caller left, perhaps just as its turn came.
            if turn.cancelled():
                self._shares.leave(share)
            elif turn.exception() is None:
                share.running -= 1
                self._release()
            raise
        finally:
            self._shares.forget(client.name)
        return share

    def _enter(self, share: Share) -> None:
        self._taken += 1
        share.running += 1
        self._empty.clear()

    def _release(self) -> None:
        """Take a place back and admit the requests whose turn it is."""
        self._taken -= 1
        while self._taken < self._places:
            following = self._shares.next(self._places_of_one)
            if following is None:
                break
            share, waiter = following
            # Enter it here: if the waiter did so on waking, another request could come first.
            self._enter(share)
            waiter.turn.set_result(None)
            self._shares.leave(share)
        if not self._taken:
            self._empty.set()

    def _send_away(self, share: Share, waiter: Waiter, error: ServiceUnavailableError) -> None:
        waiter.turn.set_exception(error)
        self._shares.leave(share)

    # Room in the queue

    def _must_wait(self, requests: int, client: Client) -> int | None:
        """Return how many of these would wait, or ``None`` if the queue cannot hold them."""
        shares, share = self._shares, self._shares.find(client.name)
        running = 0 if share is None else share.running
        free = min(self._places - self._taken, self._places_of_one - running)
        # While a place is free to this client, none of its requests waits.
        waiting = max(0, requests - free)
        return None if shares.num_waiting + waiting > self._queued else waiting

    def _giving_way(self, requests: int, client: Client) -> Share:
        """Return the client with the longest queue; raises unless this one's would stay shorter."""
        share = self._shares.find(client.name)
        mine = 0 if share is None else share.num_waiting
        longest = max(self._shares, key=_length_of, default=None)
        if longest is None or _length_of(longest) <= (mine + requests) / client.weight:
            raise OverloadedError(
                f"{self._taken} requests are in flight, {self.waiting} wait and {requests} "
                f"more came, above the limits of {self._places} and {self._queued}",
                hint="try again shortly",
            )
        return longest


def _length_of(share: Share) -> float:
    """Return its number of waiting requests per unit of weight."""
    return share.num_waiting / share.weight


def _crowding() -> OverloadedError:
    return OverloadedError(
        "the queue is full, and most requests in it are of this client",
        hint="send less at once, or try again shortly",
    )


def _stopping() -> ServiceUnavailableError:
    return ServiceUnavailableError("the server is stopping", hint="try again once it is back")
