"""Errors of the transport, as a call raises them."""

from __future__ import annotations

import grpc
import grpc.aio

__all__ = ["OVERLOADED", "failed"]


def failed(
    code: grpc.StatusCode, details: str = "", pushback: str | None = None
) -> grpc.aio.AioRpcError:
    """The error of a call that ended so; ``pushback`` is the server's delay before a retry."""
    trailers = grpc.aio.Metadata()
    if pushback is not None:
        trailers.add("grpc-retry-pushback-ms", pushback)
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details)


OVERLOADED = failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "1000")
