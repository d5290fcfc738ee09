"""Gives each call of a client a span, with its context sent to the server, by OpenTelemetry.

If the program has not loaded OpenTelemetry before a client opens its channel, nothing is put
between client and server; if it has set up no tracing, calls are passed on unchanged. The program
decides where spans go, as for every library. The context travels in the call's metadata in the
format of the program's propagator (W3C ``traceparent`` by default).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio

if TYPE_CHECKING:
    from guided.client.call_span import CallSpan

__all__ = ["async_interceptors", "traced"]


def traced(channel: grpc.Channel) -> grpc.Channel:
    """Return a channel whose calls have spans, if the program uses OpenTelemetry."""
    if not _is_loaded():
        return channel
    return grpc.intercept_channel(cast("grpc.Channel", _SafeChannel(channel)), _Interceptor())


def async_interceptors() -> Sequence[grpc.aio.ClientInterceptor]:
    """Return the interceptors that give the calls of an asyncio channel spans."""
    return (_AsyncUnaryInterceptor(), _AsyncStreamInterceptor()) if _is_loaded() else ()


def _is_loaded() -> bool:
    return sys.modules.get("opentelemetry.trace") is not None


def _begin(method: str | bytes, request: object) -> CallSpan | None:
    from guided.client.call_span import CallSpan

    return CallSpan.begin(method.decode() if isinstance(method, bytes) else method, request)


# The blocking client


class _SafeChannel:
    """A channel that refuses calls once it is closed.

    Behind interceptors a method is looked up in the channel for each call, which ends the process
    where another thread has closed it (grpcio 1.85).
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._is_closed = False

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        """Return a method with one answer; raises ValueError, as grpcio does, once closed."""
        with self._lock:
            self._check_open()
            return self._channel.unary_unary(*args, **options)

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        """Return a method with a stream of messages; raises as ``unary_unary`` does."""
        with self._lock:
            self._check_open()
            return self._channel.unary_stream(*args, **options)

    def close(self) -> None:
        """Close the channel."""
        with self._lock:
            self._is_closed = True
            self._channel.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("Cannot invoke RPC: Channel closed!")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class _Interceptor(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Gives the calls of a channel their spans."""

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        """Trace a call with one answer, without waiting for it."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return continuation(client_call_details, request)
        call = continuation(span.carried_by(client_call_details), request)
        call.add_done_callback(span.end_of)
        return call

    def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        """Trace a call with a stream of messages."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return continuation(client_call_details, request)
        return _TracedMessages(continuation(span.carried_by(client_call_details), request), span)


class _TracedMessages:
    """The messages of a call; behaves like the call itself in everything else."""

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
        """Cancel the call; it is read no further. The reader gets any other end."""
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
        """Trace a call with one answer, which has come when this returns."""
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
    """Gives calls with a stream of messages their spans."""

    async def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Awaitable[Any]], client_call_details: Any,
        request: Any,
    ) -> Any:  # fmt: skip
        """Trace a call with a stream of messages."""
        span = _begin(client_call_details.method, request)
        if span is None:
            return await continuation(client_call_details, request)
        call = await continuation(span.carried_by(client_call_details), request)
        # A cancelled call is read no further.
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
