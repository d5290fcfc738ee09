"""Answers as they come in: text as it grows, and the outcomes of a batch.

``Incoming`` and ``Batch`` read messages and wait for nothing, so both clients share them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from guided.client.answer import Answer, Completed
from guided.client.decode import decode_answer
from guided.client.request import Request
from guided.client.status import error_of_status, raising_guided_errors
from guided.errors import GuidedError, InternalServiceError, RequestError
from guided.v1 import generation_pb2 as pb

__all__ = ["AsyncStream", "Batch", "Stream", "checked_requests", "in_order"]

T = TypeVar("T")


class _Call(Protocol):
    def __iter__(self) -> Iterator[pb.GenerateStreamResponse]: ...
    def cancel(self) -> bool: ...


class _AsyncCall(Protocol):
    def __aiter__(self) -> AsyncIterator[pb.GenerateStreamResponse]: ...
    def cancel(self) -> bool: ...


class Incoming(Generic[T]):
    """The messages of one stream, and the answer once the last of them is there."""

    def __init__(self, request: Request[T]) -> None:
        self._request = request
        self._plain: Answer[str] | None = None

    def read(self, message: pb.GenerateStreamResponse) -> str | None:
        """The text of a message, or ``None`` for the last one."""
        if self._plain is not None:
            raise InternalServiceError("the server went on behind the answer")
        if message.WhichOneof("event") == "delta":
            return message.delta
        self._plain = decode_answer(message.answer)
        return None

    def check_complete(self) -> None:
        """Raise unless the answer came."""
        if self._plain is None:
            raise InternalServiceError("the server ended the stream without an answer")

    def answer(self) -> Answer[T]:
        """The answer, its value read from its text."""
        if self._plain is None:
            raise RequestError("the stream has not come to its end", hint="read it first")
        return self._request.read(self._plain)


class Stream(Generic[T]):
    """An iterator over pieces of the answer's text, and the answer once the last one was read.

    Leaving its ``with`` block before the end cancels the request.
    """

    def __init__(self, request: Request[T], call: _Call) -> None:
        self._call = call
        self._incoming = Incoming(request)

    @property
    def answer(self) -> Answer[T]:
        """The answer, validated as that of ``generate``; there once the last piece was read.

        Raises AnswerValidationError where its type refuses it.
        """
        return self._incoming.answer()

    def close(self) -> None:
        """Cancel the request, unless its answer is complete."""
        self._call.cancel()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        with raising_guided_errors():
            for message in self._call:
                if (text := self._incoming.read(message)) is not None:
                    return text
        self._incoming.check_complete()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncStream(Generic[T]):
    """An iterator over pieces of the answer's text, and the answer once the last one was read.

    Leaving its ``async with`` block before the end cancels the request.
    """

    def __init__(self, request: Request[T], call: _AsyncCall) -> None:
        self._call = call
        self._incoming = Incoming(request)

    @property
    def answer(self) -> Answer[T]:
        """The answer, as in ``Stream``."""
        return self._incoming.answer()

    async def close(self) -> None:
        """Cancel the request, unless its answer is complete."""
        self._call.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        with raising_guided_errors():
            async for message in self._call:
                if (text := self._incoming.read(message)) is not None:
                    return text
        self._incoming.check_complete()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Batch(Generic[T]):
    """The requests of one call, and which of them have an outcome."""

    def __init__(self, requests: Sequence[Request[T]]) -> None:
        self._requests = requests
        self._open = set(range(len(requests)))

    def read(self, response: pb.GenerateBatchResponse) -> Completed[T]:
        """Take in one outcome."""
        index = response.index
        if index not in self._open:
            raise InternalServiceError(
                f"the server sent an outcome for request {index}, which awaits none"
            )
        self._open.remove(index)
        return Completed(index, self._outcome(self._requests[index], response))

    def check_complete(self) -> None:
        """Raise unless every request has its outcome."""
        if self._open:
            raise InternalServiceError(
                f"the server ended the batch without outcomes for requests {sorted(self._open)}"
            )

    def _outcome(
        self, request: Request[T], response: pb.GenerateBatchResponse
    ) -> Answer[T] | GuidedError:
        if response.WhichOneof("outcome") == "error":
            return error_of_status(response.error)
        try:
            return request.read(decode_answer(response.response))
        except GuidedError as error:
            return error


def checked_requests(requests: Iterable[Request[T]]) -> tuple[Request[T], ...]:
    """The requests of a call as a tuple; raises ``RequestError`` unless all are requests."""
    hint = "pass a list of guided.Request"
    if not isinstance(requests, Iterable):
        raise RequestError(
            f"{requests!r} is not a collection of requests", field="requests", hint=hint
        )
    checked = tuple(requests)
    for index, request in enumerate(checked):
        if not isinstance(request, Request):
            raise RequestError(
                f"item {index} is not a guided.Request but {request!r}",
                field="requests",
                hint=hint,
            )
    return checked


def in_order(completed: Iterable[Completed[T]]) -> list[Answer[T] | GuidedError]:
    """Outcomes in the order of their requests."""
    return [one.outcome for one in sorted(completed, key=_index)]


def _index(completed: Completed[Any]) -> int:
    return completed.index
