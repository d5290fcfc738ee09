"""A limit on requests in flight; further ones wait in a bounded queue, and beyond it are refused.

::

    request ──▶ place free? ──yes──▶ in flight
                  │ no
                  ▼
                queue, by queue key (arrival and priority), each at its own deadline
                  │ full
                  ▼
                OverloadedError
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from guided.errors import DeadlineExceededError, ServiceUnavailableError

__all__ = ["Admission", "OverloadedError"]


class OverloadedError(ServiceUnavailableError):
    """The server has as many requests in flight and waiting as it takes."""


@dataclass(order=True, slots=True)
class _Waiter:
    queue_key: float
    number: int
    """Of equal keys, who came first."""
    turn: asyncio.Future[None] = field(compare=False)


class Admission:
    """Places for requests in flight, and a queue for those that find none."""

    def __init__(self, places: int, queued: int = 0, queued_bytes: int = 2**30) -> None:
        """``queued`` requests may wait for a place, whose messages have ``queued_bytes`` in all."""
        self._places = places
        self._queued = queued
        self._queued_bytes = queued_bytes
        self._taken = 0
        self._heap: list[_Waiter] = []
        self._numbers = count()
        self._num_waiting = 0
        self._waiting_bytes = 0
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
        return self._num_waiting

    def check_room(self, requests: int, nbytes: int) -> None:
        """Raise ``OverloadedError`` unless so many more would find a place or may wait for one."""
        if self._is_closed:
            raise _stopping()
        queued = self._taken + self._num_waiting + requests - self._places
        is_long = queued > 0 and self._waiting_bytes + nbytes > self._queued_bytes
        if queued > self._queued or is_long:
            raise OverloadedError(
                f"{self._taken} requests are in flight, {self._num_waiting} wait and {requests} "
                f"more came, above the limits of {self._places} and {self._queued}, or of "
                f"{self._queued_bytes} bytes",
                hint="try again shortly",
            )

    @asynccontextmanager
    async def admitted(
        self, queue_key: float, nbytes: int = 0, *, seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Hold a place, waiting for it at most so many ``seconds``.

        Raises ``OverloadedError`` where the queue is full, and ``DeadlineExceededError``.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._take(queue_key, nbytes)
        except TimeoutError as error:
            raise DeadlineExceededError(
                "the deadline came while the request waited for a place",
                hint="allow more time, or send less at once",
            ) from error
        try:
            yield
        finally:
            self._release()

    async def wait_until_empty(self) -> None:
        """Wait until no request is in flight."""
        await self._empty.wait()

    def close(self) -> None:
        """Let nobody in any more: who waits is told to come again."""
        self._is_closed = True
        for waiter in self._heap:
            if not waiter.turn.done():
                waiter.turn.set_exception(_stopping())
        self._heap.clear()

    async def _take(self, queue_key: float, nbytes: int) -> None:
        self.check_room(1, nbytes)
        if not self._num_waiting and self._taken < self._places:
            self._taken += 1
            self._empty.clear()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, _Waiter(queue_key, next(self._numbers), turn))
        self._num_waiting += 1
        self._waiting_bytes += nbytes
        try:
            await turn
        except asyncio.CancelledError:
            # Its deadline passed or its caller left, perhaps in the moment when it had its turn.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release()
            raise
        finally:
            self._num_waiting -= 1
            self._waiting_bytes -= nbytes

    def _release(self) -> None:
        """Take a place back, and let in who is first."""
        self._taken -= 1
        while self._heap and self._taken < self._places:
            turn = heapq.heappop(self._heap).turn
            if not turn.done():  # else its caller has left
                # Taken here and not when the waiter wakes up, or another could come between.
                self._taken += 1
                turn.set_result(None)
        if not self._taken:
            self._empty.set()


def _stopping() -> ServiceUnavailableError:
    return ServiceUnavailableError("the server is stopping", hint="try again once it is back")
