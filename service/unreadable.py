"""Messages that protobuf cannot read, which gRPC by itself calls a fault of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from typing_extensions import override

from guided.errors import RequestError
from guided.spec import MAX_NESTING
from guided_service.abort import Context, abort

__all__ = ["RefusesUnreadable"]


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """In place of a message."""


class RefusesUnreadable(grpc.aio.ServerInterceptor):
    """Refuses such messages of one service as the mistakes of their senders that they are."""

    def __init__(self, service: str, retry_after_seconds: float) -> None:
        self._methods = f"/{service}/"
        self._retry_after_seconds = retry_after_seconds

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._methods):
            return handler
        assert not handler.request_streaming, "one message asks for all there is"
        read = handler.request_deserializer

        def tried(message: bytes) -> object:
            try:
                return read(message)
            except DecodeError:
                return _Unreadable()

        make = (
            grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        answered = handler.unary_stream if handler.response_streaming else handler.unary_unary
        return make(self._checked(answered), tried, handler.response_serializer)

    def _checked(self, answer: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def answer_readable(message: object, context: Context) -> Any:
            if isinstance(message, _Unreadable):
                error = RequestError(
                    "the message of the call cannot be read as protobuf",
                    hint=f"nest its messages less deeply; constraints may stand {MAX_NESTING} deep",
                )
                await abort(context, error, self._retry_after_seconds)
            return await answer(message, context)

        return answer_readable
