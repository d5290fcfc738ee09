"""Limits how many messages arrive at once, and how long each may take.

Until a call's message is requested, the transport takes no more than ``UNREAD_BYTES`` of it; from
then on it takes all of it as fast as it comes. So messages are requested a few at a time, by fair
shares of clients. A message that does not arrive blocks nobody: it gives way when others wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from guided.errors import DeadlineExceededError
from guided_service.admission import Admission, Client, OverloadedError
from guided_service.config import ServerConfig
from guided_service.status import Context

__all__ = ["ARRIVING", "UNREAD_BYTES", "Arrivals"]

ARRIVING: Final = 16
"""Messages that arrive at once; one client may have half of them."""

UNREAD_BYTES: Final = 2**16
"""What the transport takes of a message that was not requested: its window of HTTP/2."""

_PATIENCE_SECONDS = 1.0
"""How long a message may take while others wait for their turn."""


class Arrivals:
    """Requests the messages of calls, each in its turn."""

    def __init__(self, config: ServerConfig) -> None:
        # A request that finds no place here would find none in the queue after it either.
        calls = config.max_requests_in_flight + config.max_requests_queued
        self._turns = Admission(ARRIVING, calls, places_of_one=ARRIVING // 2)
        self._seconds = config.stall_seconds

    async def message(self, context: Context, client: Client) -> Any:
        """Return the message of a call, or ``grpc.aio.EOF``.

        Raises ``OverloadedError`` if too many wait, or if others wait for a slow message, and
        ``DeadlineExceededError`` for a message that does not come in time.
        """
        async with self._turns.admitted(time.monotonic(), client=client):
            return await self._come(context)

    async def _come(self, context: Context) -> Any:
        begun, turn = time.monotonic(), min(_PATIENCE_SECONDS, self._seconds)
        coming = asyncio.ensure_future(context.read())
        try:
            while not (await asyncio.wait({coming}, timeout=turn))[0]:
                if time.monotonic() - begun >= self._seconds:
                    raise DeadlineExceededError(
                        f"the message of the call did not come within {self._seconds:g} s",
                        hint="send it at once",
                    )
                if self._turns.waiting:
                    raise OverloadedError(
                        f"the message of the call had not come after {turn:g} s, and others wait",
                        hint="try again shortly",
                    )
            return coming.result()
        finally:
            coming.cancel()
