"""A bound on how long the message of a call may take to come.

The transport waits for it as long as the call is open, and a call that is open holds memory. So
each handler of one message is declared as one of a stream of messages, from which the first is
taken in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from typing_extensions import override

from guided.errors import DeadlineExceededError, RequestError
from guided_service.status import Context, abort

__all__ = ["AwaitsMessages"]


class AwaitsMessages(grpc.aio.ServerInterceptor):
    """Ends calls whose message does not come within so many seconds."""

    def __init__(self, seconds: float, pause_seconds: float) -> None:
        self._seconds = seconds
        self._pause_seconds = pause_seconds

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
            try:
                async with asyncio.timeout(self._seconds):
                    message = await context.read()
            except TimeoutError:
                error = DeadlineExceededError(
                    f"the message of the call did not come within {self._seconds:g} s",
                    hint="send it at once",
                )
                await abort(context, error, self._pause_seconds)
            if message is grpc.aio.EOF:
                error_of_none = RequestError("the call has no message", hint="send one")
                await abort(context, error_of_none, self._pause_seconds)
            return await answer(message, context)

        return answer_in_time
