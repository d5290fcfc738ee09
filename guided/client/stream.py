"""One answer, read as it grows, in the blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from guided.client.answer import Answer
from guided.client.request import Request
from guided.client.status import raising_guided_errors
from guided.client.streaming import Incoming
from guided.v1 import generation_pb2 as pb

__all__ = ["Stream"]

T = TypeVar("T")


class _Call(Protocol):
    def __iter__(self) -> Iterator[pb.GenerateStreamResponse]: ...
    def cancel(self) -> bool: ...


class Stream(Generic[T]):
    """An iterator over pieces of the answer's text, and the answer once it is through.

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
        """Cancel the request, unless it is through."""
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
