"""Inspects the handlers that interceptors wrap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from guided_service.status import Context

__all__ = ["kind_of"]


def kind_of(handler: Any) -> tuple[Callable[..., Any], Callable[[Any, Context], Awaitable[Any]]]:
    """Return the maker of handlers of this kind, and this handler's function."""
    kind = "_".join(
        "stream" if streams else "unary"
        for streams in (handler.request_streaming, handler.response_streaming)
    )
    return getattr(grpc, f"{kind}_rpc_method_handler"), getattr(handler, kind)
