"""Bounds how many messages of calls arrive at once, and how long each may take.

The transport waits for a message as long as the call is open, and an open call holds memory. So
each handler that takes one message is declared to take a stream, and the first message is read from
it in its turn and in time.

Until then the transport takes no more than ``UNREAD_BYTES`` of it; from then on it takes all of it
as fast as it comes. So messages are requested a few at a time, by fair shares of clients. A message
that does not arrive blocks nobody: it gives way when others wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
from typing_extensions import override

from guided.errors import DeadlineExceededError, RequestError
from guided_service.admission import Admission, Client, OverloadedError
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.handlers import Wraps
from guided_service.status import Context, abort

__all__ = ["ARRIVING", "UNREAD_BYTES", "AwaitsMessages"]


ARRIVING: Final = 16
"""Messages that arrive at once; one client may have half of them."""

UNREAD_BYTES: Final = 2**16
"""What the transport takes of a message that was not requested: its window of HTTP/2."""

_PATIENCE_SECONDS = 1.0
"""How long a message may take while others wait for their turn."""


class _Arrivals:
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


class AwaitsMessages(Wraps):
    """Requests the messages of calls, and ends calls whose message does not come."""

    def __init__(self, door: Door, config: ServerConfig) -> None:
        self._door = door
        self._arrivals = _Arrivals(config)
        self._pause_seconds = config.retry_after_seconds

    @override
    def wrapped(self, handler: Any, path: str) -> Any:
        if handler.request_streaming:
            return handler
        if handler.response_streaming:
            make, answer = grpc.stream_stream_rpc_method_handler, handler.unary_stream
        else:
            make, answer = grpc.stream_unary_rpc_method_handler, handler.unary_unary
        return make(
            self._in_time(answer), handler.request_deserializer, handler.response_serializer
        )

    def _in_time(self, answer: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def answer_in_time(_: object, context: Context) -> Any:
            message = await self._message(context)
            answering = answer(message, context)
            # The handler releases it as soon as it is read.
            del message
            return await answering

        return answer_in_time

    async def _message(self, context: Context) -> Any:
        is_read = False
        try:
            client = self._door.caller(context).client
            message = await self._arrivals.message(context, client)
            is_read = True
            if message is grpc.aio.EOF:
                raise RequestError("the call has no message", hint="send one")
        except Exception as error:
            await abort(context, error, self._pause_seconds)
        finally:
            if not is_read:
                self._door.held.note_freed(UNREAD_BYTES)
        return message
