"""How messages come in: measured as bytes, then read, long ones beside the event loop.

::

    bytes ──▶ too large?  ──▶ too many fields? ──▶ parsed ──▶ call ──▶ GenerationRequest
              │ yes           │ yes                │ cannot be
              ▼               ▼                    ▼
              LimitExceededError                   RequestError

What is short is read at once: an event loop is held up for a few milliseconds at most, and handing
over to another thread takes longer. Threads that read long messages take turns with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from typing_extensions import override

from guided.errors import LimitExceededError, RequestError
from guided.spec import MAX_NESTING
from guided_service.admission import OverloadedError
from guided_service.config import ServerConfig
from guided_service.field_count import check_fields
from guided_service.memory import give_back_memory
from guided_service.request_watch import note_message
from guided_service.status import Context, abort

__all__ = ["READERS", "Intake", "Readers"]

T = TypeVar("T")

Descriptor: TypeAlias = Any
"""Its types in protobuf's stubs are those of two implementations."""

_SHORT_BYTES = 2**12
"""Of a message that is read at once: it has some two thousand fields at most."""

READERS: Final = 2
"""Threads at most; each is started when the others are busy."""

_UNRETURNED_BYTES = 2**25
"""Of messages after which memory is given back to the system."""


class Readers:
    """Threads that do what takes long with messages, while the event loop serves others."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is the size of the messages that may be in their hands."""
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="intake")
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._read_bytes = 0
        """Since memory was last given back."""

    async def do(self, work: Callable[[], T], nbytes: int) -> T:
        """The result of some work on a message of this size, done at once where that is short.

        Raises ``OverloadedError`` where too much waits for a thread. Work that waits when its
        caller is cancelled is never done.
        """
        if nbytes <= _SHORT_BYTES:
            return work()
        if self._held_bytes + nbytes > self._most_bytes:
            raise OverloadedError(
                f"messages of {self._held_bytes} bytes are being read, and one of {nbytes} came, "
                f"above the limit of {self._most_bytes}",
                hint="try again shortly",
            )
        self._held_bytes += nbytes
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._held_bytes -= nbytes
            self._read_bytes += nbytes
            if not self._held_bytes and self._read_bytes > _UNRETURNED_BYTES:
                self._read_bytes = 0
                self._pool.submit(give_back_memory)

    def close(self) -> None:
        """End the threads, once they are done with what they read."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the messages of one kind of call are read."""

    parse: Callable[[bytes], Any]
    descriptor: Descriptor
    max_bytes: int
    max_fields: int

    def check_size(self, message: bytes) -> None:
        """Raise LimitExceededError for a message that is too large."""
        if len(message) > self.max_bytes:
            raise LimitExceededError(
                f"the call's message has {len(message)} bytes, above the limit of {self.max_bytes}",
                limit=self.max_bytes,
                hint="send less in one call",
            )

    def __call__(self, message: bytes) -> Any:
        """The message as an object, or the error that says why not."""
        if len(message) > self.max_fields:  # a field has a byte at least
            check_fields(message, self.descriptor, self.max_fields)
        try:
            return self.parse(message)
        except DecodeError as error:
            # By itself, gRPC calls it a fault of the server.
            raise RequestError(
                "the message of the call cannot be read as protobuf",
                hint=f"nest its messages less deeply; constraints may stand {MAX_NESTING} deep",
            ) from error


class Intake(grpc.aio.ServerInterceptor):
    """Reads the messages of some services' calls, and refuses what is too much or no message."""

    def __init__(
        self, services: Iterable[Descriptor], config: ServerConfig, readers: Readers
    ) -> None:
        self._methods = {
            f"/{service.full_name}/{each.name}": each
            for service in services
            for each in service.methods
        }
        self._config = config
        self._readers = readers

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = self._methods.get(handler_call_details.method)
        if handler is None or method is None:
            return handler
        assert not handler.request_streaming, "one message asks for all there is"
        reading = _Reading(
            handler.request_deserializer,
            method.input_type,
            self._config.max_message_bytes,
            self._config.max_message_fields,
        )
        make = (
            grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        answered = handler.unary_stream if handler.response_streaming else handler.unary_unary
        # The transport hands over the bytes as they are.
        return make(self._reads(answered, reading), bytes, handler.response_serializer)

    def _reads(self, answer: Callable[[Any, Context], Awaitable[Any]], reading: _Reading) -> Any:
        async def read_and_answer(message: bytes, context: Context) -> Any:
            try:
                reading.check_size(message)
                read = await self._readers.do(partial(reading, message), len(message))
            except Exception as error:
                await abort(context, error, self._config.retry_after_seconds)
            note_message(read)
            return await answer(read, context)

        return read_and_answer
