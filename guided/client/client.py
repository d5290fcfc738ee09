"""The blocking client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self, Unpack

import grpc
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
from guided.client.grammars import Grammars
from guided.client.incoming import Stream
from guided.client.options import Options, Schema
from guided.client.prompt import Prompt
from guided.client.request import NO_MODEL, Request
from guided.client.retry import Attempts
from guided.client.scores import Score, ScoreOptions, read_scores, score_requests
from guided.client.security import Endpoint
from guided.client.services import Services
from guided.client.token_messages import text_message, tokens_message
from guided.client.tracing import traced
from guided.client.tries import Tries
from guided.client.window import Asked, Window, in_order, message_of, stream_message_of
from guided.errors import GuidedError
from guided.spec import PromptTokens
from guided.stats import EngineStats, ModelInfo
from guided.v1 import model_pb2

__all__ = ["Client"]

T = TypeVar("T", default=Any)
R = TypeVar("R")


class Client(ClientBase):
    """A connection to a server; threads may share it, a forked process may not.

    >>> with Client("localhost:50051") as client:
    ...     person = client.generate("Invent a person.", Person).value

    A call that the server could not take (it is starting, or full) is retried with growing pauses,
    no sooner than the server says, as long as its time lasts; so is each request of a batch. A call
    whose connection broke is retried twice under the same ``request_id``. A request that was
    running when the engine ended, or when the server stopped, is not retried, and its error says
    so.
    """

    _services: Services

    def _services_of(self, endpoint: Endpoint) -> Services:
        return Services(traced(endpoint.open()))

    def generate(
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
            response = self._answered(self._services.generation.Generate, message, attempts)
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
    ) -> Stream[T]:
        """Generate an answer and return an iterator over its text; use it in ``with``.

        >>> with client.stream("Tell a story.", max_tokens=200) as story:
        ...     for text in story:
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

        return Stream(request, attempts, start)

    def batch(
        self, requests: Iterable[Request[T]], *, timeout: float | None = None
    ) -> list[Answer[T] | GuidedError]:
        """Generate any number of answers concurrently; returns them in the order of the requests.

        Finished answers are kept whatever happens to the server; a request without an answer has
        its error in its place. If an iterator raises an error, the last outcome is a
        ``RequestError`` about it. ``timeout`` bounds each request from when it is sent.
        """
        return in_order(self.as_completed(requests, timeout=timeout))

    def as_completed(
        self, requests: Iterable[Request[T]], *, timeout: float | None = None
    ) -> Generator[Completed[T], None, None]:
        """Generate any number of answers concurrently and yield each outcome when it is ready.

        Requests are read as room becomes free, so an iterator may be endless. Closing the generator
        cancels what is still running.
        """
        window = Window(requests, self._terms.concurrency, partial(self._attempts, timeout))
        ended: SimpleQueue[tuple[Asked[T], Any]] = SimpleQueue()
        running: dict[int, Any] = {}
        try:
            while True:
                self._check_open()
                for asked in window.due():
                    running[asked.index] = self._begin(asked, ended)
                if unsendable := window.take_unsendable():
                    yield from unsendable
                    continue
                if not window.is_open:
                    return
                try:
                    asked, call = ended.get(timeout=window.seconds_to_wait())
                except Empty:
                    continue
                del running[asked.index]
                self._check_open()
                # A failed call is its own error.
                ending = call.result() if call.code() is grpc.StatusCode.OK else call
                if (completed := window.settle(asked, ending)) is not None:
                    yield completed
        finally:
            for call in running.values():
                call.cancel()

    def _begin(self, asked: Asked[T], ended: SimpleQueue[tuple[Asked[T], Any]]) -> Any:
        """Send one request of a batch; the call is queued when it has ended."""
        with self._while_open():
            call = self._services.generation.Generate.future(
                asked.message, timeout=asked.attempts.seconds_left, metadata=self._metadata
            )
        call.add_done_callback(lambda call: ended.put((asked, call)))
        return call

    def _ask(
        self,
        call: Callable[..., R],
        message: Message,
        timeout: float | None,
        most_retries: float = math.inf,
    ) -> R:
        """Return the server's response to a call that is not for an answer of the model."""
        attempts = self._attempts(timeout, most_retries=most_retries)
        return self._answered(call, message, attempts)

    def _answered(self, call: Callable[..., R], message: Message, attempts: Attempts) -> R:
        """Return the server's response to a call, which is retried as long as that is safe."""
        while True:
            try:
                with self._while_open():
                    response = call(message, timeout=attempts.seconds_left, metadata=self._metadata)
            except grpc.RpcError as error:
                time.sleep(attempts.pause(error))
            else:
                attempts.succeed()
                return response

    @property
    def grammars(self) -> Grammars:
        """Checks constraints, reads texts by them, and keeps them for later requests."""
        return Grammars(self._services, self._ask)

    def model(self, *, timeout: float | None = None) -> ModelInfo:
        """Return the model that the server has loaded, the first if there are several."""
        call, request = self._services.models.GetModel, model_pb2.GetModelRequest()
        return decode_model(self._ask(call, request, timeout, STATE_RETRIES).model)

    def models(self, *, timeout: float | None = None) -> list[ModelInfo]:
        """Return all models that requests may name; the first answers requests that name none."""
        call, request = self._services.models.ListModels, model_pb2.ListModelsRequest()
        told = self._ask(call, request, timeout, STATE_RETRIES)
        return [decode_model(each) for each in told.models]

    def tokenize(
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
        return decode_prompt_tokens(self._ask(self._services.models.Tokenize, message, timeout))

    def score(
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
        return read_scores(requests, self.batch(requests, timeout=timeout))

    def detokenize(
        self, tokens: Iterable[int], *, model: str = "", timeout: float | None = None
    ) -> bytes:
        """Return the text that tokens stand for, in bytes: it may begin or end in a character.

        ``model`` is the one whose tokens they are, on a server with several. Raises a
        ``RequestError`` for a token that the model does not have.
        """
        message = text_message(tokens, model)
        text: bytes = self._ask(self._services.models.Detokenize, message, timeout).text
        return text

    def stats(self, *, timeout: float | None = None) -> EngineStats:
        """Return the engine's statistics since its start; at most two seconds old."""
        call, request = self._services.models.GetStats, model_pb2.GetStatsRequest()
        return decode_stats(self._ask(call, request, timeout, STATE_RETRIES).stats)

    def close(self) -> None:
        """Close the connection; calls that still run are cancelled."""
        self._connection.is_closed = True
        self._services.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
