"""The asyncio client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from typing_extensions import TypeForm, TypeVar

from guided.client.answer import Answer, Completed
from guided.client.channel import ClientBase
from guided.client.decode import decode_answer, decode_model, decode_stats
from guided.client.grammars import AsyncGrammars
from guided.client.incoming import AsyncStream, Batch, checked_requests, in_order
from guided.client.options import Options, Schema
from guided.client.prompt import Prompt
from guided.client.request import NO_MODEL, Request
from guided.client.security import Link, TlsChoice
from guided.client.status import raising_guided_errors
from guided.client.tracing import async_interceptors
from guided.errors import GuidedError
from guided.stats import EngineStats, ModelInfo
from guided.v1 import generation_pb2, model_pb2
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.v1.grammar_pb2_grpc import GrammarServiceStub
from guided.v1.model_pb2_grpc import ModelServiceStub
from guided.wire_request import encode_request

__all__ = ["AsyncClient"]

T = TypeVar("T", default=Any)


class AsyncClient(ClientBase):
    """A connection to a server, used in the event loop that it was made in.

    >>> async with AsyncClient("localhost:50051") as client:
    ...     person = (await client.generate("Invent a person.", Person)).value

    All else is as in ``Client``; cancelling a task that waits here cancels its call.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 600.0,
        tls: TlsChoice = False,
        token: str | None = None,
        insecure: bool = False,
    ) -> None:
        """Connect on first use; what is passed is as for ``Client``."""
        super().__init__(timeout)
        link = Link.of(address, tls, token, insecure=insecure)
        self._channel = link.open_async(async_interceptors())
        shown = link.authorized(self._channel)
        self._service = GenerationServiceStub(shown)
        self._model_service = ModelServiceStub(shown)
        self._grammar_service = GrammarServiceStub(shown)

    async def generate(
        self,
        prompt: Prompt,
        response_model: TypeForm[T] = NO_MODEL,
        *,
        schema: Schema | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Answer[T]:
        """Make one answer; its value is as ``Request`` says.

        ``timeout`` is in seconds; ``None`` takes the client's.
        """
        self._check_open()
        request = Request(prompt, response_model, schema, **options)
        message = encode_request(request.specification)
        with raising_guided_errors():
            response = await self._service.Generate(message, timeout=self._seconds(timeout))
        return request.read(decode_answer(response))

    def stream(
        self,
        prompt: Prompt,
        response_model: TypeForm[T] = NO_MODEL,
        *,
        schema: Schema | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> AsyncStream[T]:
        """Make one answer and read its text as it grows; for use in ``async with``.

        >>> async with client.stream("Tell a story.", max_tokens=200) as story:
        ...     async for text in story:
        ...         print(text, end="", flush=True)
        """
        self._check_open()
        request = Request(prompt, response_model, schema, **options)
        message = generation_pb2.GenerateStreamRequest(
            request=encode_request(request.specification)
        )
        return AsyncStream(
            request, self._service.GenerateStream(message, timeout=self._seconds(timeout))
        )

    async def batch(
        self, requests: Iterable[Request[T]], *, timeout: float | None = None
    ) -> list[Answer[T] | GuidedError]:
        """Make many answers side by side; each outcome stands where its request stood."""
        return in_order(
            [completed async for completed in self.as_completed(requests, timeout=timeout)]
        )

    async def as_completed(
        self, requests: Iterable[Request[T]], *, timeout: float | None = None
    ) -> AsyncGenerator[Completed[T], None]:
        """Make many answers side by side, handing out each outcome once it is there.

        Closing the iterator cancels what is still running.
        """
        self._check_open()
        checked = checked_requests(requests)
        batch = Batch(checked)
        message = generation_pb2.GenerateBatchRequest(
            requests=[encode_request(request.specification) for request in checked]
        )
        with raising_guided_errors():
            call = self._service.GenerateBatch(message, timeout=self._seconds(timeout))
            try:
                async for response in call:
                    yield batch.read(response)
            finally:
                call.cancel()
        batch.check_complete()

    @property
    def grammars(self) -> AsyncGrammars:
        """Constraints without answers: checked, read texts by, and kept for requests to come."""
        return AsyncGrammars(self._grammar_service, self._open_seconds)

    async def model(self, *, timeout: float | None = None) -> ModelInfo:
        """The model that the server has loaded."""
        self._check_open()
        request = model_pb2.GetModelRequest()
        with raising_guided_errors():
            response = await self._model_service.GetModel(request, timeout=self._seconds(timeout))
        return decode_model(response.model)

    async def stats(self, *, timeout: float | None = None) -> EngineStats:
        """What the engine has done since it was started; at most two seconds old."""
        self._check_open()
        request = model_pb2.GetStatsRequest()
        with raising_guided_errors():
            response = await self._model_service.GetStats(request, timeout=self._seconds(timeout))
        return decode_stats(response.stats)

    async def close(self) -> None:
        """Give the connection back; calls that still run are cancelled."""
        self._is_closed = True
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
