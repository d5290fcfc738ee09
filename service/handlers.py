"""Inspects the handlers of calls, and wraps them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from typing_extensions import override

__all__ = ["Wraps", "kind_of"]


class Wraps(grpc.aio.ServerInterceptor):
    """An interceptor that replaces the handlers of calls."""

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        return None if handler is None else self.wrapped(handler, handler_call_details.method)

    @abstractmethod
    def wrapped(self, handler: Any, path: str) -> Any:
        """Return the handler for the calls of a method, which may be the same one."""


def kind_of(handler: Any) -> tuple[Callable[..., Any], Callable[[Any, Any], Awaitable[Any]]]:
    """Return the maker of handlers of this kind, and this handler's function.

    The function takes a message and the context of the server that calls it, ours or Ray's.
    """
    kind = "_".join(
        "stream" if streams else "unary"
        for streams in (handler.request_streaming, handler.response_streaming)
    )
    return getattr(grpc, f"{kind}_rpc_method_handler"), getattr(handler, kind)
