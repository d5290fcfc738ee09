"""Finds, wraps and calls the services' methods as gRPC's server does, without that server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Never

import grpc
import grpc.aio
from google.rpc import status_pb2

from guided.error_record import DETAILS_TRAILER
from guided_service.handlers import kind_of
from guided_service.ray.proxied import METHOD, SECONDS_LEFT
from guided_service.status import shown, status_code_of

__all__ = ["CallContext", "Calls", "Packed"]

_END: Final = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A message as Ray takes it: bytes behind protobuf's method for serializing."""

    content: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - named as in protobuf
        """Return the bytes of the message."""
        return self.content


class CallContext:
    """What handlers need of a ``grpc.aio.ServicerContext``, as far as Ray passes it on."""

    def __init__(self, told: Any) -> None:
        """``told`` is Ray's context, which returns what is set on it to the proxy."""
        self._told = told
        metadata: list[tuple[str, str | bytes]] = told.invocation_metadata()
        found = dict(metadata)
        self.method = str(found[METHOD])
        """The path of the called method."""
        self._metadata = [each for each in metadata if each[0] not in (METHOD, SECONDS_LEFT)]
        left = found.get(SECONDS_LEFT)
        self._deadline = None if left is None else asyncio.get_running_loop().time() + float(left)
        self._trailers: tuple[tuple[str, str | bytes], ...] = ()
        self._written: asyncio.Queue[bytes | None] = asyncio.Queue()

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        """Return the metadata that the caller sent."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Return the seconds until the call's deadline; ``None`` if it has none."""
        if self._deadline is None:
            return None
        return max(self._deadline - asyncio.get_running_loop().time(), 0.0)

    def peer(self) -> str:
        """Return the caller's address, as the proxy sees it."""
        return str(self._told.peer())

    def peer_identities(self) -> Sequence[bytes] | None:
        """Return the caller's identities by its certificate."""
        found: Sequence[bytes] | None = self._told.peer_identities()
        return found

    def code(self) -> Any:
        """Return the status that was set."""
        return self._told.code()

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Set the metadata sent to the caller at the end."""
        self._trailers = tuple(metadata)
        self._told.set_trailing_metadata(list(metadata))

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> Never:
        """End the call with this status."""
        self._told.set_code(code)
        self._told.set_details(details)
        if not trailing_metadata:
            # By its details the proxy tells a status of the service from one of Ray.
            status = status_pb2.Status(code=code.value[0], message=details)
            trailing_metadata = (*self._trailers, (DETAILS_TRAILER, status.SerializeToString()))
        self.set_trailing_metadata(trailing_metadata)
        raise grpc.aio.AbortError

    async def write(self, message: Any) -> None:
        """Send one message of a stream, and return once it is taken."""
        self._written.put_nowait(message.SerializeToString())
        await self._written.join()

    def end(self) -> None:
        """End what is written."""
        self._written.put_nowait(_END)

    async def written(self) -> AsyncIterator[bytes]:
        """Yield the written messages, up to the end."""
        while (message := await self._written.get()) is not _END:
            self._written.task_done()
            yield message


class Calls:
    """Handlers by their paths; generated code registers them as with a server."""

    def __init__(self, interceptors: Sequence[grpc.aio.ServerInterceptor]) -> None:
        self._interceptors = interceptors
        self._handlers: dict[str, Any] = {}

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Take the methods of a service."""
        self._handlers |= {f"/{service}/{name}": each for name, each in handlers.items()}

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore the same methods, which generated code registers again for older servers."""

    async def answer(self, message: bytes, context: CallContext) -> bytes:
        """Return the response to a call, empty if it failed or was written to the context."""
        try:
            handler = await self._found(context)
            # A handler that refuses a call has no deserializer.
            deserialize = handler.request_deserializer or bytes
            _, behaviour = kind_of(handler)
            response = await behaviour(deserialize(message), context)
        except grpc.aio.AbortError:
            return b""
        except Exception as error:
            told = shown(error)
            return await _aborted(context, status_code_of(told), str(told))
        return b"" if response is None else bytes(handler.response_serializer(response))

    async def stream(self, message: bytes, context: CallContext) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a streaming call, then an empty one, which carries its status."""

        async def answer() -> None:
            try:
                await self.answer(message, context)
            except asyncio.CancelledError:
                # Cancelled by the engine's side; a caller that stopped waiting gets nothing.
                await _aborted(context, grpc.StatusCode.CANCELLED, "the call was cancelled")
                raise
            finally:
                context.end()

        answering = asyncio.create_task(answer())
        try:
            async for written in context.written():
                yield written
            yield b""
        finally:
            answering.cancel()
            await asyncio.wait({answering})

    async def _found(self, context: CallContext) -> Any:
        details = _Details(context.method, tuple(context.invocation_metadata()))
        find: Callable[[Any], Awaitable[Any]] = self._handler_of
        for interceptor in reversed(self._interceptors):
            find = partial(interceptor.intercept_service, find)
        return await find(details)

    async def _handler_of(self, details: _Details) -> Any:
        return self._handlers[details.method]


@dataclass(frozen=True, slots=True)
class _Details:
    """What interceptors are given of a call: ``grpc.HandlerCallDetails``."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


async def _aborted(context: CallContext, code: grpc.StatusCode, details: str) -> bytes:
    try:
        await context.abort(code, details)
    except grpc.aio.AbortError:
        return b""
