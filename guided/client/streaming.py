"""A streamed answer as it comes in: what the blocking and the asyncio client share."""

from __future__ import annotations

from typing import Generic, TypeVar

from guided.client.answer import Answer
from guided.client.decode import decode_answer
from guided.client.request import Request
from guided.errors import InternalServiceError, RequestError
from guided.v1 import generation_pb2 as pb

__all__ = ["Incoming"]

T = TypeVar("T")


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
