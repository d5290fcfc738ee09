"""Inspects the handlers that interceptors wrap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

__all__ = ["kind_of"]


def kind_of(handler: Any) -> tuple[Callable[..., Any], Callable[[Any, Any], Awaitable[Any]]]:
    """Return the maker of handlers of this kind, and this handler's function.

    The function takes a message and the context of the server that calls it, ours or Ray's.
    """
    kind = "_".join(
        "stream" if streams else "unary"
        for streams in (handler.request_streaming, handler.response_streaming)
    )
    return getattr(grpc, f"{kind}_rpc_method_handler"), getattr(handler, kind)
