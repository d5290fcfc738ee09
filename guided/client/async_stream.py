"""One answer, read as it grows, in the asyncio client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from guided.client.answer import Answer
from guided.client.request import Request
from guided.client.status import raising_guided_errors
from guided.client.streaming import Incoming
from guided.v1 import generation_pb2 as pb

__all__ = ["AsyncStream"]

T = TypeVar("T")


class _Call(Protocol):
    def __aiter__(self) -> AsyncIterator[pb.GenerateStreamResponse]: ...
    def cancel(self) -> bool: ...


class AsyncStream(Generic[T]):
    """An iterator over pieces of the answer's text, and the answer once it is through.

    Leaving its ``async with`` block before the end cancels the request.
    """

    def __init__(self, request: Request[T], call: _Call) -> None:
        self._call = call
        self._incoming = Incoming(request)

    @property
    def answer(self) -> Answer[T]:
        """The answer, as in ``Stream``."""
        return self._incoming.answer()

    async def close(self) -> None:
        """Cancel the request, unless it is through."""
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
