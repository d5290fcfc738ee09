"""A span for each call of a client, and its context for the server: with OpenTelemetry, if any.

Where the program that uses the client has not loaded OpenTelemetry before it makes one, nothing is
put between client and server; where it has set up no tracing, a call is passed on as it is. The
program decides where spans go, as for every library. The context travels in the call's metadata as
the program's propagator says (W3C ``traceparent`` by default).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

if TYPE_CHECKING:
    from guided.client.call_span import CallSpan

__all__ = ["async_interceptors", "traced"]


def traced(channel: grpc.Channel) -> grpc.Channel:
    """A channel whose calls have spans, where the program uses OpenTelemetry."""
    return grpc.intercept_channel(channel, _Interceptor()) if _is_loaded() else channel


def async_interceptors() -> Sequence[grpc.aio.ClientInterceptor]:
    """What an asyncio channel is made with for its calls to have spans."""
    return (_AsyncUnaryInterceptor(), _AsyncStreamInterceptor()) if _is_loaded() else ()


def _is_loaded() -> bool:
    return sys.modules.get("opentelemetry.trace") is not None


def _begin(method: str | bytes, request: object) -> CallSpan | None:
    from guided.client.call_span import CallSpan

    return CallSpan.begin(method.decode() if isinstance(method, bytes) else method, request)


# The blocking client


class _Interceptor(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Gives the calls of a channel their spans."""

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        """A call with one answer, for which a batch does not wait here."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return continuation(client_call_details, request)
        call = continuation(span.carried_by(client_call_details), request)
        call.add_done_callback(span.end_of)
        return call

    def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        """A call whose messages come one after another."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return continuation(client_call_details, request)
        return _TracedMessages(continuation(span.carried_by(client_call_details), request), span)


class _TracedMessages:
    """The messages of a call, and the call itself in all else."""

    def __init__(self, call: Any, span: CallSpan) -> None:
        self._call = call
        self._span = span

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            message = next(self._call)
        except StopIteration:
            self._span.end()
            raise
        except grpc.RpcError as error:
            self._span.end_with(error)
            raise
        self._span.read(message)
        return message

    def cancel(self) -> bool:
        """Give the call up; it is read no further. Any other end is told to the reader."""
        is_given_up: bool = self._call.cancel()
        if is_given_up:
            self._span.end(grpc.StatusCode.CANCELLED)
        return is_given_up

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


# The asyncio client


class _AsyncUnaryInterceptor(grpc.aio.UnaryUnaryClientInterceptor):
    """Gives calls with one answer their spans."""

    async def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Awaitable[Any]], client_call_details: Any,
        request: Any,
    ) -> Any:  # fmt: skip
        """A call with one answer, which is there when it returns."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return await continuation(client_call_details, request)
        try:
            call = await continuation(span.carried_by(client_call_details), request)
            span.read(await call)
        except BaseException as error:  # a cancelled task among them
            span.end_with(error)
            raise
        span.end()
        return call


class _AsyncStreamInterceptor(grpc.aio.UnaryStreamClientInterceptor):
    """Gives calls whose messages come one after another their spans."""

    async def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Awaitable[Any]], client_call_details: Any,
        request: Any,
    ) -> Any:  # fmt: skip
        """A call whose messages come one after another."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return await continuation(client_call_details, request)
        call = await continuation(span.carried_by(client_call_details), request)
        # One that is given up is read no further.
        call.add_done_callback(
            lambda done: span.end(grpc.StatusCode.CANCELLED) if done.cancelled() else None
        )
        return _read(call, span)


async def _read(call: Any, span: CallSpan) -> AsyncIterator[Any]:
    try:
        async for message in call:
            span.read(message)
            yield message
    except BaseException as error:
        span.end_with(error)
        raise
    span.end()
