"""The asyncio client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Self, Unpack

import grpc.aio
from google.protobuf.message import Message
from typing_extensions import TypeForm, TypeVar

from guided.client.answer import Answer, Completed
from guided.client.client_base import STATE_RETRIES, ClientBase
from guided.client.decode import (
    decode_answer,
    decode_model,
    decode_prompt_tokens,
    decode_stats,
)
from guided.client.grammars import AsyncGrammars
from guided.client.incoming import AsyncStream, is_task_cancelled
from guided.client.options import Options, Schema
from guided.client.prompt import Prompt
from guided.client.request import NO_MODEL, Request
from guided.client.retry import Attempts
from guided.client.scores import Score, ScoreOptions, read_scores, score_requests
from guided.client.security import Endpoint
from guided.client.services import LoopServices
from guided.client.token_messages import text_message, tokens_message
from guided.client.tries import Tries
from guided.client.window import Asked, Ending, Window, in_order, message_of, stream_message_of
from guided.errors import GuidedError, RequestCancelledError
from guided.spec import PromptTokens
from guided.stats import EngineStats, ModelInfo
from guided.v1 import model_pb2

__all__ = ["AsyncClient"]

T = TypeVar("T", default=Any)
R = TypeVar("R")


class AsyncClient(ClientBase):
    """A connection to a server, for the event loop that first uses it.

    >>> async with AsyncClient("localhost:50051") as client:
    ...     person = (await client.generate("Invent a person.", Person)).value

    It may be made before a loop runs, and another loop may use it once that one is closed.
    Everything else is as in ``Client``; cancelling a task that waits here cancels its call.
    """

    _services: LoopServices

    def _services_of(self, endpoint: Endpoint) -> LoopServices:
        return LoopServices(endpoint)

    async def generate(
        self,
        prompt: Prompt,
        response_model: TypeForm[T] = NO_MODEL,
        *,
        schema: Schema | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Answer[T]:
        """Generate one answer, whose value is an instance of the response model if there is one.

        ``schema`` and the options are those of ``Request``. ``timeout`` is in seconds; ``None``
        takes the client's. Raises a ``GuidedError`` if there is no such answer.
        """
        tries = Tries(Request(prompt, response_model, schema, **options))
        attempts = first = self._attempts(timeout, tries.request)
        while True:
            message = message_of(tries.request, attempts)
            response = await self._answered(self._services.generation.Generate, message, attempts)
            answer = tries.read(decode_answer(response, attempts.request_id))
            if answer is not None:
                return answer
            attempts = first.renewed(tries.name(first.request_id))

    def stream(
        self,
        prompt: Prompt,
        response_model: TypeForm[T] = NO_MODEL,
        *,
        schema: Schema | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> AsyncStream[T]:
        """Generate an answer and return an iterator over its text; use it in ``async with``.

        >>> async with client.stream("Tell a story.", max_tokens=200) as story:
        ...     async for text in story:
        ...         print(text, end="", flush=True)
        """
        request = Request(prompt, response_model, schema, **options).without_retries()
        attempts = self._attempts(timeout, request)
        message = stream_message_of(request, attempts)

        def start(seconds: float) -> Any:
            with self._while_open():
                return self._services.generation.GenerateStream(
                    message, timeout=seconds, metadata=self._metadata
                )

        return AsyncStream(request, attempts, start)

    async def batch(
        self, requests: Iterable[Request[T]], *, timeout: float | None = None
    ) -> list[Answer[T] | GuidedError]:
        """Generate any number of answers concurrently; returns them in the order of the requests.

        A request without an answer has its error in its place, as in ``Client.batch``.
        """
        return in_order(
            [completed async for completed in self.as_completed(requests, timeout=timeout)]
        )

    async def as_completed(
        self, requests: Iterable[Request[T]], *, timeout: float | None = None
    ) -> AsyncGenerator[Completed[T], None]:
        """Generate any number of answers concurrently and yield each outcome when it is ready.

        Requests are read as room becomes free. Closing the iterator cancels what is still running.
        """
        window = Window(requests, self._terms.concurrency, partial(self._attempts, timeout))
        ended: asyncio.Queue[tuple[Asked[T], asyncio.Task[Ending]]] = asyncio.Queue()
        running: dict[int, asyncio.Task[Ending]] = {}
        try:
            while True:
                self._check_open()
                for asked in window.due():
                    running[asked.index] = self._begin(asked, ended)
                if unsendable := window.take_unsendable():
                    for refused in unsendable:
                        yield refused
                    continue
                if not window.is_open:
                    return
                try:
                    async with asyncio.timeout(window.seconds_to_wait()):
                        asked, call = await ended.get()
                except TimeoutError:
                    continue
                self._check_open()  # else closing would look as if the caller had cancelled
                del running[asked.index]
                if (completed := window.settle(asked, call.result())) is not None:
                    yield completed
        finally:
            for call in running.values():
                call.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)

    def _begin(
        self, asked: Asked[T], ended: asyncio.Queue[tuple[Asked[T], asyncio.Task[Ending]]]
    ) -> asyncio.Task[Ending]:
        """Send one request of a batch; the call is queued when it has ended."""

        async def call() -> Ending:
            seconds = asked.attempts.seconds_left
            try:
                ending: Ending = await self._services.generation.Generate(
                    asked.message, timeout=seconds, metadata=self._metadata
                )
            except grpc.RpcError as error:
                return error
            return ending

        task = asyncio.create_task(call())
        task.add_done_callback(lambda call: ended.put_nowait((asked, call)))
        return task

    async def _ask(
        self,
        call: Callable[..., Awaitable[R]],
        message: Message,
        timeout: float | None,
        most_retries: float = math.inf,
    ) -> R:
        """Return the server's response to a call that is not for an answer of the model."""
        attempts = self._attempts(timeout, most_retries=most_retries)
        return await self._answered(call, message, attempts)

    async def _answered(
        self, call: Callable[..., Awaitable[R]], message: Message, attempts: Attempts
    ) -> R:
        """Return the server's response to a call, which is retried as long as that is safe."""
        while True:
            try:
                with self._while_open():
                    response = await call(
                        message, timeout=attempts.seconds_left, metadata=self._metadata
                    )
            except grpc.RpcError as error:
                await asyncio.sleep(attempts.pause(error))
            except asyncio.CancelledError as error:
                if is_task_cancelled() or not attempts.is_closed:
                    raise
                raise attempts.named(RequestCancelledError("the client was closed")) from error
            else:
                attempts.succeed()
                return response

    @property
    def grammars(self) -> AsyncGrammars:
        """Checks constraints, reads texts by them, and keeps them for later requests."""
        return AsyncGrammars(self._services, self._ask)

    async def model(self, *, timeout: float | None = None) -> ModelInfo:
        """Return the model that the server has loaded, the first if there are several."""
        call, request = self._services.models.GetModel, model_pb2.GetModelRequest()
        return decode_model((await self._ask(call, request, timeout, STATE_RETRIES)).model)

    async def models(self, *, timeout: float | None = None) -> list[ModelInfo]:
        """Return all models that requests may name; the first answers requests that name none."""
        call, request = self._services.models.ListModels, model_pb2.ListModelsRequest()
        told = await self._ask(call, request, timeout, STATE_RETRIES)
        return [decode_model(each) for each in told.models]

    async def tokenize(
        self,
        prompt: Prompt,
        response_model: TypeForm[Any] = NO_MODEL,
        *,
        schema: Schema | None = None,
        texts: bool = False,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> PromptTokens:
        """Return the tokens that ``generate`` would pass to the model for the same arguments.

        ``texts`` returns the bytes of each token as well. No answer is generated.
        """
        message = tokens_message(Request(prompt, response_model, schema, **options), texts=texts)
        return decode_prompt_tokens(
            await self._ask(self._services.models.Tokenize, message, timeout)
        )

    async def score(
        self,
        prompt: Prompt,
        texts: Iterable[str],
        *,
        timeout: float | None = None,
        **options: Unpack[ScoreOptions],
    ) -> list[Score]:
        """Return how likely the model finds each text after the prompt, in their order.

        Each text is a request of a batch, which costs one call of the model. Raises the first error
        of them.
        """
        requests = score_requests(prompt, texts, options)
        return read_scores(requests, await self.batch(requests, timeout=timeout))

    async def detokenize(
        self, tokens: Iterable[int], *, model: str = "", timeout: float | None = None
    ) -> bytes:
        """Return the text that tokens stand for, in bytes: it may begin or end in a character.

        ``model`` is the one whose tokens they are, on a server with several. Raises a
        ``RequestError`` for a token that the model does not have.
        """
        message = text_message(tokens, model)
        text: bytes = (await self._ask(self._services.models.Detokenize, message, timeout)).text
        return text

    async def stats(self, *, timeout: float | None = None) -> EngineStats:
        """Return the engine's statistics since its start; at most two seconds old."""
        call, request = self._services.models.GetStats, model_pb2.GetStatsRequest()
        return decode_stats((await self._ask(call, request, timeout, STATE_RETRIES)).stats)

    async def close(self) -> None:
        """Close the connection; calls that still run are cancelled."""
        self._connection.is_closed = True
        await self._services.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
