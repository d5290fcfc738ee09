"""Takes in messages: measures their bytes, then reads them, long ones outside the event loop.

::

    bytes ──▶ too large?  ──▶ too many fields? ──▶ parsed ──▶ call ──▶ GenerationRequest
              │ yes           │ yes                │ cannot be
              ▼               ▼                    ▼
              LimitExceededError                   RequestError

Short messages are read at once: this blocks the event loop for a few milliseconds at most, and
handing over to another thread takes longer. Threads that read long messages take turns with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message
from typing_extensions import override

from guided.errors import LimitExceededError, RequestError
from guided.spec import MAX_NESTING
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.field_count import counted_fields
from guided_service.handlers import Wraps, kind_of
from guided_service.held_bytes import CALL_BYTES
from guided_service.request_watch import note_message
from guided_service.status import Context, abort

__all__ = ["READERS", "Intake", "Readers", "size_of_message"]

T = TypeVar("T")

Descriptor: TypeAlias = Any
"""The descriptor of a method or a message; protobuf's stubs type it in two ways."""

_SHORT_BYTES = 2**12
"""Largest message that is read at once: it has at most about two thousand fields.

Calls about the health or the facts of the model are not longer."""

_FIELD_BYTES = 128
"""The most memory that a field of a parsed message takes."""

READERS: Final = 2
"""Most threads; each is started when the others are busy."""

_size: ContextVar[int | None] = ContextVar("size", default=None)
"""Size of the current call's message, in bytes."""


def size_of_message(message: Message) -> int:
    """Return the bytes of the current call's message."""
    size = _size.get()
    # Counting them takes as long as serializing the message.
    return message.ByteSize() if size is None else size


class Readers:
    """Threads for long work on messages, while the event loop serves others."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="intake")

    async def do(self, work: Callable[[], T], nbytes: int) -> T:
        """Return the result of some work on a message of this size; short work is done at once.

        Work still waiting for a thread when its caller is cancelled is dropped.
        """
        if nbytes <= _SHORT_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the threads once their current work is done."""
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

    def memory(self, message: bytes) -> int:
        """Return the memory of its fields once parsed; raises LimitExceededError for too many.

        A short message counts nothing: it is converted at once and does not live long.
        """
        if len(message) <= min(_SHORT_BYTES, self.max_fields):  # a field has a byte at least
            return 0
        return _FIELD_BYTES * counted_fields(message, self.descriptor, self.max_fields)

    def read(self, message: bytes) -> Any:
        """Parse the message; raises RequestError if it cannot be read."""
        try:
            return self.parse(message)
        except DecodeError as error:
            # Otherwise gRPC reports it as a fault of the server.
            raise RequestError(
                "the message of the call cannot be read as protobuf",
                hint=f"nest its messages less deeply; constraints may stand {MAX_NESTING} deep",
            ) from error


class Intake(Wraps):
    """Reads the messages of some methods' calls, and refuses too large and invalid ones."""

    def __init__(
        self,
        methods: Iterable[Descriptor],
        config: ServerConfig,
        readers: Readers,
        door: Door | None = None,
    ) -> None:
        """Without a ``door``, messages do not count in what calls hold and must be short."""
        self._methods = {
            f"/{each.containing_service.full_name}/{each.name}": each for each in methods
        }
        self._config = config
        self._readers = readers
        self._door = door

    @override
    def wrapped(self, handler: Any, path: str) -> Any:
        method = self._methods.get(path)
        if method is None:
            return handler
        assert not handler.request_streaming, "one message asks for all there is"
        reading = _Reading(
            handler.request_deserializer,
            method.input_type,
            _SHORT_BYTES if self._door is None else self._config.max_message_bytes,
            self._config.max_message_fields,
        )
        make, answer = kind_of(handler)
        # With ``bytes`` the transport hands over the message unparsed.
        return make(self._reads(answer, reading), bytes, handler.response_serializer)

    def _reads(self, answer: Callable[[Any, Context], Awaitable[Any]], reading: _Reading) -> Any:
        door = self._door

        async def read_and_answer(message: bytes, context: Context) -> Any:
            client = "" if door is None else door.caller(context).client.name
            with nullcontext() if door is None else door.held.of_call(client) as hold:
                try:
                    reading.check_size(message)
                    size = len(message)
                    if hold is not None:
                        hold.add(CALL_BYTES + size)
                    memory = await self._readers.do(partial(reading.memory, message), size)
                    if hold is not None:
                        hold.add(memory)
                    read = await self._readers.do(partial(reading.read, message), size)
                except Exception as error:
                    del message  # see ``abort``: this frame is in the cycle as well
                    await abort(context, error, self._config.retry_after_seconds)
                note_message(read)
                _size.set(size)
                answering = answer(read, context)
                # The handler keeps what it needs of it, in its own form.
                del message, read
                return await answering

        return read_and_answer
