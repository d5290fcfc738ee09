"""A limit on requests in flight; further ones wait in a short queue, and beyond it are refused.

::

    call ──▶ places free? ──yes──▶ in flight
               │ no
               ▼
             queue, first come first served ──full──▶ OverloadedError
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from guided.errors import ServiceUnavailableError

__all__ = ["Admission", "OverloadedError", "Places"]


class OverloadedError(ServiceUnavailableError):
    """The server has as many requests in flight and waiting as it takes."""


class Places:
    """The places that one call holds; they are given back one by one or all at its end."""

    def __init__(self, admission: Admission, count: int) -> None:
        self._admission = admission
        self._held = count

    def give_back_one(self) -> None:
        """Let another request in."""
        assert self._held > 0, "more places are given back than are held"
        self._held -= 1
        self._admission.release(1)

    def give_back_all(self) -> None:
        """Give back what is still held."""
        self._admission.release(self._held)
        self._held = 0


class Admission:
    """Places for requests in flight, and a queue for those that find none."""

    def __init__(self, places: int, queued: int = 0) -> None:
        """``queued`` requests may wait for a place."""
        self._places = places
        self._queued = queued
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def in_flight(self) -> int:
        """Requests that hold a place."""
        return self._taken

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return sum(requests for requests, _ in self._waiting)

    @asynccontextmanager
    async def admitted(self, requests: int) -> AsyncIterator[Places]:
        """Hold a place for each request, waiting for them; raises ``OverloadedError`` at the limit.

        Who waits keeps its turn, so a large batch is not overtaken for ever by single requests.
        """
        await self._take(requests)
        places = Places(self, requests)
        try:
            yield places
        finally:
            places.give_back_all()

    async def wait_until_empty(self) -> None:
        """Wait until no request is in flight."""
        await self._empty.wait()

    def release(self, requests: int) -> None:
        """Take places back, and let in who waits for them."""
        self._change(-requests)
        while self._waiting and self._taken + self._waiting[0][0] <= self._places:
            entering, turn = self._waiting.popleft()
            if not turn.done():
                # Taken here and not when the waiter wakes up, or another call could come between.
                self._change(entering)
                turn.set_result(None)

    async def _take(self, requests: int) -> None:
        if not self._waiting and self._taken + requests <= self._places:
            self._change(requests)
            return
        if self.waiting + requests > self._queued:
            raise OverloadedError(
                f"{self._taken} requests are in flight, {self.waiting} wait and {requests} more "
                f"came, above the limits of {self._places} and {self._queued}",
                hint="try again shortly",
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = requests, turn
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            # Its deadline passed or its caller left, perhaps in the very moment of its turn.
            if turn.done() and not turn.cancelled():
                self.release(requests)
            else:
                self._waiting.remove(entry)
                self.release(0)
            raise

    def _change(self, requests: int) -> None:
        self._taken += requests
        if self._taken:
            self._empty.clear()
        else:
            self._empty.set()
