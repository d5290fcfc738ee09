"""How many messages come at once, and how long one may take.

The transport takes no more of a call than ``UNREAD_BYTES`` before its message is asked for, and all
of it as fast as it comes from then on. So messages are asked for a few at a time, by fair shares
of clients. One that does not come keeps nobody out: it gives way where others wait.
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
"""Messages that come at once, half of them of one client."""

UNREAD_BYTES: Final = 2**16
"""What the transport takes of a message that was not asked for: its window of HTTP/2."""

_PATIENCE_SECONDS = 1.0
"""How long a message may take while others wait to be asked for theirs."""


class Arrivals:
    """Asks for the messages of calls, each in its turn."""

    def __init__(self, config: ServerConfig) -> None:
        # Whoever finds no place here would find none behind it.
        calls = config.max_requests_in_flight + config.max_requests_queued
        self._turns = Admission(ARRIVING, calls, places_of_one=ARRIVING // 2)
        self._seconds = config.stall_seconds

    async def message(self, context: Context, client: Client) -> Any:
        """The message of a call, or ``grpc.aio.EOF``.

        Raises ``OverloadedError`` where too many wait, or wait for this one, and
        ``DeadlineExceededError`` for one that does not come in time.
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
