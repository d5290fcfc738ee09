"""Offers the services through Ray's gRPC proxy, which passes each call to the ingress as it came.

Ray passes a call's message as an object, without its service or deadline, and a status keeps its
details only next to a message. So messages stay bytes here, service and remaining time travel as
metadata, and a stream ends with an empty message that only carries its status.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

from guided.error_record import DETAILS_TRAILER
from guided.errors import GuidedError, ServiceUnavailableError
from guided.v1 import generation_pb2, grammar_pb2, model_pb2
from guided_service.engine_connection import CutOffError
from guided_service.status import status_code_of, status_of, trailers_of

__all__ = ["METHOD", "SECONDS_LEFT", "add_services"]

METHOD: Final = "guided-method"
"""Metadata with the path of the call, such as ``/guided.v1.GenerationService/Generate``."""

SECONDS_LEFT: Final = "guided-seconds-left"
"""Metadata with the seconds left until the deadline, if it has one."""

_SERVICES: Final[tuple[Any, ...]] = (
    *generation_pb2.DESCRIPTOR.services_by_name.values(),
    *grammar_pb2.DESCRIPTOR.services_by_name.values(),
    *model_pb2.DESCRIPTOR.services_by_name.values(),
    *health_pb2.DESCRIPTOR.services_by_name.values(),
)

_REFUSED: Final = frozenset(
    code.value[0]
    for code in (
        grpc.StatusCode.NOT_FOUND,  # no application has been deployed
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    )
)
"""Codes of Ray's status when it passes a call to nobody."""

_PAUSE_SECONDS: Final = 0.5
"""Pause for callers whom Ray refused."""


def add_services(servicer: object, server: Any) -> None:
    """Have a proxy take all services' calls; one of Ray's ``grpc_servicer_functions``.

    Method names are not unique across services (``Check``), so the ingress has only two, ``unary``
    and ``stream``, which Ray finds as the last part of a path.
    """
    make = server.service_handler_factory
    server.service_handler_factory = partial(_handing_over, make)
    try:
        for service in _SERVICES:
            # Without a deserializer, messages stay bytes.
            handlers = {each.name: _handler(each, servicer) for each in service.methods}
            handler = grpc.method_handlers_generic_handler(service.full_name, handlers)
            server.add_generic_rpc_handlers((handler,))
    finally:
        server.service_handler_factory = make


def _handler(method: Any, servicer: object) -> grpc.RpcMethodHandler[Any, Any]:
    """Return a handler, which Ray replaces by its own of the same kind."""
    kind = (
        grpc.unary_stream_rpc_method_handler
        if method.server_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    handler: grpc.RpcMethodHandler[Any, Any] = kind(lambda *_: servicer)
    return handler


def _handing_over(
    make: Callable[..., Callable[..., Any]], service_method: str, streaming_type: Any
) -> Callable[..., Any]:
    """Wrap a handler of Ray's to pass the ingress more, and its caller proper errors."""
    streams = streaming_type.value.endswith("_stream")
    name = f"{service_method}/{'stream' if streams else 'unary'}"
    hand_over = make(service_method=name, streaming_type=streaming_type)

    async def unary(message: bytes, context: Any) -> bytes:
        answering: Awaitable[bytes] = hand_over(message, _Telling(context, service_method))
        answer = await answering
        _explain(context)
        return answer

    async def stream(message: bytes, context: Any) -> None:
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        handing = asyncio.create_task(
            _hand(hand_over(message, _Telling(context, service_method)), parts)
        )
        try:
            while (part := await parts.get()) is not None:
                if part:
                    await context.write(part)
            await handing
        finally:
            handing.cancel()
        _explain(context)

    return stream if streams else unary


async def _hand(answering: AsyncIterator[bytes], parts: asyncio.Queue[bytes | None]) -> None:
    """Put the parts of a stream, and its end, into a queue.

    Ray notices a caller leaving only while it waits for the next part, not while one is sent. Here
    it always waits, so cancelling this task cancels the call.
    """
    try:
        async for part in answering:
            parts.put_nowait(part)
    finally:
        parts.put_nowait(None)


class _Telling:
    """A call whose metadata adds what Ray leaves out."""

    def __init__(self, context: Any, method: str) -> None:
        self._context = context
        self._method = method

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        sent = self._context.invocation_metadata() or ()
        told = [(key, value) for key, value in sent if key not in (METHOD, SECONDS_LEFT)]
        left = self._context.time_remaining()
        if left is not None and math.isfinite(left):
            told.append((SECONDS_LEFT, repr(left)))
        return [*told, (METHOD, self._method)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _explain(context: Any) -> None:
    """Give a failure of Ray itself the form of the service's failures."""
    trailers = tuple(context.trailing_metadata() or ())
    told = any(key == DETAILS_TRAILER for key, _ in trailers)
    error = None if told else _error_of(context.code(), context.details())
    if error is not None:
        status = status_of(error, _PAUSE_SECONDS)
        context.set_code(status_code_of(error))
        context.set_details(status.message)
        context.set_trailing_metadata((*trailers, *trailers_of(status)))


def _error_of(code: Any, details: str) -> GuidedError | None:
    """Return the error that a status of Ray's stands for, or ``None`` for one of the service."""
    number = code.value[0] if isinstance(code, grpc.StatusCode) else code
    if number == grpc.StatusCode.INTERNAL.value[0]:
        # The ingress raises no errors: so it has ended, and the request may have run.
        return CutOffError("the ingress ended while the request ran", hint="try again")
    if number in _REFUSED:
        return ServiceUnavailableError(f"Ray takes no request: {details}", hint="try again shortly")
    return None
