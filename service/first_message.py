"""Bounds how many messages of calls arrive at once, and how long each may take.

The transport waits for a message as long as the call is open, and an open call holds memory. So
each handler that takes one message is declared to take a stream, and the first message is read from
it in its turn and in time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from typing_extensions import override

from guided.errors import RequestError
from guided_service.arrivals import UNREAD_BYTES, Arrivals
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.status import Context, abort

__all__ = ["AwaitsMessages"]


class AwaitsMessages(grpc.aio.ServerInterceptor):
    """Requests the messages of calls, and ends calls whose message does not come."""

    def __init__(self, door: Door, config: ServerConfig) -> None:
        self._door = door
        self._arrivals = Arrivals(config)
        self._pause_seconds = config.retry_after_seconds

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
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
