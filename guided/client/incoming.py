"""Reads answers as they grow.

``Incoming`` reads messages without waiting, so both clients share it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from threading import Lock
from typing import Generic, Protocol, Self, TypeVar

import grpc

from guided.client.answer import Answer
from guided.client.decode import decode_answer
from guided.client.growing_json import GrowingJson, ValueEvent
from guided.client.partial import Partials
from guided.client.request import Request
from guided.client.retry import Attempts
from guided.client.stream_events import EventReader, StreamEvent
from guided.errors import InternalServiceError, RequestCancelledError, RequestError
from guided.v1 import generation_pb2 as pb

__all__ = ["AsyncStream", "Stream", "is_task_cancelled"]

T = TypeVar("T")


class _Call(Protocol):
    def __iter__(self) -> Iterator[pb.GenerateStreamResponse]: ...
    def cancel(self) -> bool: ...


class _AsyncCall(Protocol):
    def __aiter__(self) -> AsyncIterator[pb.GenerateStreamResponse]: ...
    def cancel(self) -> bool: ...


C = TypeVar("C", bound=_Call | _AsyncCall)


class _Thought(str):
    """Text of the thoughts before an answer."""

    __slots__ = ()


class Incoming(Generic[T]):
    """The messages of one stream, and its answer after the last of them."""

    def __init__(self, request: Request[T], attempts: Attempts) -> None:
        self._request = request
        self._has_several = request.specification.has_candidates
        self._attempts = attempts
        self._plain: Answer[str] | None = None
        self._has_begun = False
        self.is_closed = False
        self.held: str | None = None
        """Text of the answer that arrived while its thoughts were read."""

    def read(self, message: pb.GenerateStreamResponse) -> pb.GenerateStreamResponse:
        """Read a message and return it; the last one is kept as the answer."""
        self._attempts.succeed()
        self._has_begun = True
        if self._plain is not None:
            raise InternalServiceError("the server sent more after the answer")
        if message.WhichOneof("event") not in ("delta", "reasoning_delta", "end"):
            self._plain = decode_answer(message.answer, self._attempts.request_id)
        return message

    def text_of(self, message: pb.GenerateStreamResponse) -> str | None:
        """Return the text in a message, perhaps a thought; ``None`` if it has none.

        Texts of several answers come mixed, so only their events are read.
        """
        if self._has_several:
            return None
        match message.WhichOneof("event"):
            case "delta":
                return message.delta
            case "reasoning_delta":
                return _Thought(message.reasoning_delta)
        return None

    def pause(self, error: grpc.RpcError) -> float:
        """Return the seconds before the stream is retried, or raise the error it failed with.

        A stream that has begun is not retried: text that was read cannot be taken back.
        """
        self.check_closed(error)
        if self._has_begun:
            raise self._attempts.final(error) from error
        return self._attempts.pause(error)

    def seconds_left(self) -> float:
        """Return the remaining time; raises what ``check_closed`` raises."""
        self.check_closed()
        return self._attempts.seconds_left

    def check_closed(self, error: BaseException | None = None) -> None:
        """Raise ``RequestCancelledError`` if the stream or its client was closed."""
        if self.is_closed or self._attempts.is_closed:
            closed = RequestCancelledError("the stream was closed")
            raise self._attempts.named(closed) from error

    def plain(self) -> Answer[str]:
        """Return the answer before its type reads it; raises unless it came."""
        if self._plain is None:
            raise InternalServiceError("the server ended the stream without an answer")
        return self._plain

    def events(self) -> EventReader[T]:
        """Return a reader of the stream's events; raises if the stream was partly read."""
        self._check_unread()
        return EventReader(self._request)

    def document(self) -> GrowingJson:
        """Return a reader of the answer's values; raises if the stream was partly read."""
        self.partials()
        return GrowingJson()

    def partials(self) -> Partials[T]:
        """Return a reader of the answer by its type; raises if the stream was partly read."""
        self._check_unread()
        return self._request.partials()

    def _check_unread(self) -> None:
        if self._has_begun:
            raise RequestError(
                "part of the stream was already read",
                hint="begin with its values, partials or events",
            )

    @property
    def begun(self) -> str:
        """The message that the answer continues, which is not sent."""
        return self._request.specification.begun

    def take_held(self) -> str | None:
        """Return the held text and drop it."""
        text, self.held = self.held, None
        return text

    def answer(self) -> Answer[T]:
        """Return the answer with its value read from its text."""
        if self._plain is None:
            raise RequestError("the stream has not ended", hint="read it first")
        return self._request.read(self._plain)


class _StreamBase(Generic[T, C]):
    """The base of both streams: a call, and what has arrived of its answer."""

    def __init__(
        self, request: Request[T], attempts: Attempts, start: Callable[[float], C]
    ) -> None:
        self._incoming = Incoming(request, attempts)
        self._start = start
        self._call = start(attempts.seconds_left)

    @property
    def answer(self) -> Answer[T]:
        """The answer, validated as by ``generate``; available once the last piece was read.

        Raises AnswerValidationError if its type refuses it.
        """
        return self._incoming.answer()


class Stream(_StreamBase[T, _Call]):
    """An iterator over pieces of the answer's text, and the answer once the last one was read.

    Instead of its text, you may read its values, or the answer itself while it grows, or its
    events. Several answers have events alone: their texts come mixed. Leaving its ``with`` block
    before the end cancels the request. Threads that read it together get different pieces.
    """

    def __init__(
        self, request: Request[T], attempts: Attempts, start: Callable[[float], _Call]
    ) -> None:
        super().__init__(request, attempts, start)
        self._lock = Lock()
        """Held while a piece is read: the transport has messages read one at a time."""

    def values(self) -> Generator[ValueEvent, None, None]:
        """Yield each value of the answer when it is complete, inner values before outer ones.

        The last one is the whole answer, with the pointer ``""``. Needs a response model or a
        schema, whose answers are JSON.

        >>> with client.stream("A recipe.", Recipe) as recipe:
        ...     for event in recipe.values():
        ...         print(event.pointer, event.value)
        """
        document = self._incoming.document()
        yield from document.feed(self._incoming.begun)
        for text in self:
            yield from document.feed(text)
        yield from document.end()

    def partials(self) -> Generator[T, None, None]:
        """Yield the answer's value so far after each piece of its text; see docs/using.md.

        Fields that have not begun are ``None``. Complete values were read by their type, including
        its validators; incomplete ones were not validated.

        >>> with client.stream("A recipe.", Recipe) as recipe:
        ...     for partial in recipe.partials():
        ...         show(partial.title, partial.steps)
        """
        partials = self._incoming.partials()
        yield from partials.feed(self._incoming.begun)
        for text in self:
            yield from partials.feed(text)
        yield from partials.end()

    def events(self) -> Generator[StreamEvent[T], None, None]:
        """Yield what the answers say, their calls of tools, and the end of each.

        >>> with client.stream("Rain in Oslo?", tools=[Weather], n=2, temperature=1) as stream:
        ...     for event in stream.events():
        ...         match event:
        ...             case guided.TextGrown(index, text):
        ...                 show(index, text)
        ...             case guided.CallEnded(index, call):
        ...                 show(index, call.name, call.arguments)
        """
        reader = self._incoming.events()
        while True:
            with self._lock:
                message = self._message()
            if message is None:
                break
            yield from reader.read(message)
        yield from reader.end(self._incoming.plain())

    def thoughts(self) -> Generator[str, None, None]:
        """Yield pieces of the model's thoughts, up to the beginning of its answer.

        They are in ``answer.reasoning`` in any case; iterating over the stream alone skips them.

        >>> with client.stream("A recipe.", Recipe, reasoning=200) as recipe:
        ...     for thought in recipe.thoughts():
        ...         print(thought, end="", flush=True)
        ...     for text in recipe:
        ...         show(text)
        """
        while (thought := self._thought()) is not None:
            yield thought

    def close(self) -> None:
        """Cancel the request, unless its answer is complete."""
        self._incoming.is_closed = True
        self._call.cancel()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        with self._lock:
            piece = self._incoming.take_held()
            while piece is None or isinstance(piece, _Thought):
                piece = self._piece()
            return piece

    def _thought(self) -> str | None:
        """Return the next piece of thoughts; ``None`` at their end, where a piece may be held."""
        with self._lock:
            if self._incoming.held is not None:
                return None
            try:
                piece = self._piece()
            except StopIteration:
                return None
            if isinstance(piece, _Thought):
                return str(piece)
            self._incoming.held = piece
            return None

    def _piece(self) -> str:
        while (message := self._message()) is not None:
            if (text := self._incoming.text_of(message)) is not None:
                return text
        raise StopIteration

    def _message(self) -> pb.GenerateStreamResponse | None:
        """Return the next message, ``None`` after the last one."""
        while True:
            try:
                for message in self._call:
                    return self._incoming.read(message)
                break
            except grpc.RpcError as error:
                time.sleep(self._incoming.pause(error))
                self._call = self._start(self._incoming.seconds_left())
            except ValueError as error:  # of a channel that was closed, told behind interceptors
                self._incoming.check_closed(error)
                raise
        self._incoming.plain()  # raises if the answer did not come
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(_StreamBase[T, _AsyncCall]):
    """An iterator over pieces of the answer's text, and the answer once the last one was read.

    Instead of its text, you may read its values, or the answer itself while it grows, or its
    events, as in ``Stream``. Leaving its ``async with`` block before the end cancels the request,
    and so does dropping it.
    """

    def __init__(
        self, request: Request[T], attempts: Attempts, start: Callable[[float], _AsyncCall]
    ) -> None:
        super().__init__(request, attempts, start)
        self._loop = asyncio.get_running_loop()

    def __del__(self) -> None:
        # A stream whose call could not begin has no loop yet; a call ends with its loop. What is
        # dropped may be collected in any thread, but only the loop's own may touch the call.
        with suppress(AttributeError, RuntimeError):
            self._loop.call_soon_threadsafe(self._call.cancel)

    async def values(self) -> AsyncGenerator[ValueEvent, None]:
        """Yield each value of the answer when it is complete, as in ``Stream``."""
        document = self._incoming.document()
        for event in document.feed(self._incoming.begun):
            yield event
        async for text in self:
            for event in document.feed(text):
                yield event
        for event in document.end():
            yield event

    async def partials(self) -> AsyncGenerator[T, None]:
        """Yield the answer's value so far after each piece of its text, as in ``Stream``."""
        partials = self._incoming.partials()
        for partial in partials.feed(self._incoming.begun):
            yield partial
        async for text in self:
            for partial in partials.feed(text):
                yield partial
        for partial in partials.end():
            yield partial

    async def events(self) -> AsyncGenerator[StreamEvent[T], None]:
        """Yield what the answers say, their calls, and the end of each, as in ``Stream``."""
        reader = self._incoming.events()
        while (message := await self._message()) is not None:
            for event in reader.read(message):
                yield event
        for event in reader.end(self._incoming.plain()):
            yield event

    async def thoughts(self) -> AsyncGenerator[str, None]:
        """Yield pieces of the model's thoughts, as in ``Stream``."""
        while self._incoming.held is None:
            try:
                piece = await self._piece()
            except StopAsyncIteration:
                return
            if isinstance(piece, _Thought):
                yield str(piece)
            else:
                self._incoming.held = piece

    async def close(self) -> None:
        """Cancel the request, unless its answer is complete."""
        self._incoming.is_closed = True
        self._call.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        piece = self._incoming.take_held()
        while piece is None or isinstance(piece, _Thought):
            piece = await self._piece()
        return piece

    async def _piece(self) -> str:
        while (message := await self._message()) is not None:
            if (text := self._incoming.text_of(message)) is not None:
                return text
        raise StopAsyncIteration

    async def _message(self) -> pb.GenerateStreamResponse | None:
        """Return the next message, ``None`` after the last one."""
        while True:
            try:
                async for message in self._call:
                    return self._incoming.read(message)
                break
            except grpc.RpcError as error:
                await asyncio.sleep(self._incoming.pause(error))
                self._call = self._start(self._incoming.seconds_left())
            except asyncio.CancelledError as error:
                if not is_task_cancelled():
                    self._incoming.check_closed(error)
                raise
        self._incoming.plain()  # raises if the answer did not come
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def is_task_cancelled() -> bool:
    """Whether the current task is being cancelled.

    The transport raises the same error if only the call was cancelled, by closing it.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
