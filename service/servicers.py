"""Serves the calls for answers, and says what servicers need of an engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from google.rpc import status_pb2
from typing_extensions import override

from guided.errors import GuidedError, LimitExceededError
from guided.spec import GenerationRequest, GenerationResult, PromptTokens, TokenId
from guided.spec.tool_format import FORMATS
from guided.stats import EngineStats, ModelInfo
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceServicer
from guided.wire import refuse_unknown_fields
from guided_service.admission import OverloadedError
from guided_service.call_reader import ReaderOf, reader_of
from guided_service.calls import or_abort, write_within
from guided_service.config import ServerConfig
from guided_service.constraint_store import ConstraintStore
from guided_service.door import Admitted, Caller, Door
from guided_service.encode import encode_result
from guided_service.grammar_servicer import Inspector, report_beside, unreported
from guided_service.held_bytes import count_held, count_let_go
from guided_service.intake import Readers, size_of_message
from guided_service.large_answers import encoded_answer
from guided_service.repeats import Repeats, digest_of, key_of
from guided_service.request_reader import ChecksRequests, RequestReader
from guided_service.request_record import note_client
from guided_service.request_watch import watched_item
from guided_service.status import Context, shown, status_of
from guided_service.stream_events import StreamEvent
from guided_service.stream_teller import PlainTeller, StreamTeller

__all__ = ["AnswerMaker", "Engine", "GenerationServicer", "ModelSource", "Tokenizer"]

T = TypeVar("T")


class _Once(Generic[T]):
    """Passes a value through calls that would otherwise each keep it until they return."""

    def __init__(self, value: T) -> None:
        self._values = [value]

    def look(self) -> T:
        """Return the value and keep it."""
        return self._values[0]

    def take(self) -> T:
        """Return the value and release it."""
        return self._values.pop()


_BYTES_OF_A_BYTE = 2
"""Bytes that an answer holds per byte of its message, about: its objects take more."""


def _count_unread(response: pb.GenerateResponse) -> int:
    """Count an answer that waits to be sent; returns its bytes.

    Its place is free, so nothing else bounds how many answers wait to be read. Raises
    ``OverloadedError`` if there is no room: later there is, and a repeated request gets the same
    answer.
    """
    held = _BYTES_OF_A_BYTE * response.ByteSize()
    try:
        count_held(held)
    except (LimitExceededError, OverloadedError) as error:
        raise OverloadedError(
            "the answer was made, but others of its batch wait to be read, and there is no room",
            hint="read answers as they come, then repeat this request, with its request_id",
        ) from error
    return held


class AnswerMaker(Inspector, ChecksRequests, Protocol):
    """Generates answers."""

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        """Generate one answer; cancelling this call frees what it holds.

        Deadline and priority count from when the request was ``received`` (``time.monotonic``).
        Clients take turns at slow compilations.
        """

    def stream(
        self,
        request: GenerationRequest,
        received: float,
        client: str = "",
        *,
        is_watched: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Generate the answers to a request: what is added to each, then the result.

        Closing frees what it holds. Ranked answers are only in the result. A watched answer yields
        lines of JSON on how it comes about, instead of its text.
        """


class GenerationServicer(GenerationServiceServicer):
    """Checks calls, has their answers generated, and gives each failure its status."""

    def __init__(self, maker: AnswerMaker, config: ServerConfig, readers: Readers) -> None:
        self._maker = maker
        self._config = config
        self._readers = readers
        self._repeats = Repeats()
        self.door = Door(config, lambda name: maker.model(name).context_window)
        """Identifies callers and decides which request is next."""
        self.admission = self.door.admission
        self.stored = ConstraintStore(config.max_stored_constraints, config.max_stored_bytes)
        """Constraints that requests may name."""
        self.reader = RequestReader(maker, readers, self.stored, config)

    # Not coroutine functions, which would keep the message as long as they run.
    @override
    def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> Coroutine[Any, Any, pb.GenerateResponse]:
        return or_abort(context, self._admit_one(_Once(request), context), self._config)

    # The generated type expects a handler that yields. One that writes is cancelled in its own
    # frame when the client leaves, so it can stop everything that it started.
    @override
    def GenerateStream(  # type: ignore[override]
        self, request: pb.GenerateStreamRequest, context: Context
    ) -> Coroutine[Any, Any, None]:
        return or_abort(context, self._admit_stream(_Once(request), context), self._config)

    @override
    async def GenerateBatch(  # type: ignore[override]
        self, request: pb.GenerateBatchRequest, context: Context
    ) -> None:
        await or_abort(context, self._admit_all(request, context), self._config)

    async def _admit_one(
        self, message: _Once[pb.GenerateRequest], context: Context
    ) -> pb.GenerateResponse:
        self._maker.check_ready()
        size = size_of_message(message.look())
        return await self._answer(message, context, size, time.monotonic())

    async def _admit_stream(
        self, message: _Once[pb.GenerateStreamRequest], context: Context
    ) -> None:
        self._maker.check_ready()
        size, received = size_of_message(message.look()), time.monotonic()
        caller, is_detailed = self._caller(context), message.look().detailed
        name = caller.client.name
        request, size = await self._asked(message.take(), context, size)
        async with (
            self.door.admitted(caller, request, size, received) as admitted,
            report_beside(self._maker, request, name) as report,
            aclosing(self._streamed(admitted, name)) as events,
        ):
            reader = self._reader(request)
            teller = StreamTeller(request, reader) if is_detailed else PlainTeller(request, reader)
            async for event in events:
                if isinstance(event, GenerationResult):
                    admitted.answered(event)
                    told = None if report is None else await report
                    encode = partial(teller.answered, report=told)
                    async with encoded_answer(encode, event) as messages:
                        await self._write_all(messages, context)
                else:
                    await self._write_all(teller.grown(event), context)

    def _streamed(self, admitted: Admitted, client: str) -> AsyncGenerator[StreamEvent, None]:
        return self._maker.stream(unreported(admitted.request), admitted.received, client)

    async def _write(
        self, message: pb.GenerateStreamResponse | pb.GenerateBatchResponse, context: Context
    ) -> None:
        await write_within(self._config.stall_seconds, message, context)

    async def _write_all(
        self, messages: Iterable[pb.GenerateStreamResponse], context: Context
    ) -> None:
        for each in messages:
            await self._write(each, context)

    async def _admit_all(self, batch: pb.GenerateBatchRequest, context: Context) -> None:
        self._check_batch(len(batch.requests))
        refuse_unknown_fields(batch, inside=False)  # each request has its own outcome
        self._maker.check_ready()
        # Admit the batch whole or not at all. Then each request takes a place of its own until it
        # has its answer.
        client = self._caller(context).client
        self.admission.check_room(len(batch.requests), client)
        count_held(batch.ByteSize())  # kept whole in addition to its decoded requests
        await self._answer_all(batch, context, time.monotonic())

    async def _answer_all(
        self, batch: pb.GenerateBatchRequest, context: Context, received: float
    ) -> None:
        running = {
            asyncio.create_task(self._outcome(index, request, context, received))
            for index, request in enumerate(batch.requests)
        }
        outcomes = asyncio.as_completed(list(running))
        for task in running:
            # Only its waiter keeps an ended task, so an answer is freed once sent.
            task.add_done_callback(running.discard)
        try:
            for outcome in outcomes:
                answer, held = await outcome
                await self._write(answer, context)
                count_let_go(held)
        finally:
            left = tuple(running)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _outcome(
        self, index: int, request: pb.GenerateRequest, context: Context, received: float
    ) -> tuple[pb.GenerateBatchResponse, int]:
        """Return one answer or its error, and the bytes it counts until it is sent."""
        with watched_item(index, request):
            try:
                size = request.ByteSize()
                response = await self._answer(_Once(request), context, size, received)
                held = _count_unread(response)
            except Exception as error:
                return pb.GenerateBatchResponse(index=index, error=self._status(shown(error))), 0
        return pb.GenerateBatchResponse(index=index, response=response), held

    async def _answer(
        self, message: _Once[pb.GenerateRequest], context: Context, size: int, received: float
    ) -> pb.GenerateResponse:
        caller = self._caller(context)
        make = partial(self._make, caller, message, context, size, received)
        if not message.look().request_id:
            return await make()
        digest = await self._readers.do(partial(digest_of, message.look()), size)
        return await self._repeats.answer(key_of(message.look(), caller), digest, make)

    async def _make(
        self,
        caller: Caller,
        message: _Once[pb.GenerateRequest],
        context: Context,
        size: int,
        received: float,
    ) -> pb.GenerateResponse:
        request, size = await self._asked(message.take(), context, size)
        name = caller.client.name
        async with (
            self.door.admitted(caller, request, size, received) as admitted,
            report_beside(self._maker, request, name) as report,
        ):
            reader = self._reader(request)
            asked = unreported(admitted.request)
            result = await self._maker.generate(asked, admitted.received, name)
            admitted.answered(result)
            told = None if report is None else await report
        # The place is free by now: an answer that waits to be read delays nobody else.
        encode = partial(encode_result, report=told, reader=reader)
        async with encoded_answer(encode, result) as encoded:
            return encoded

    def _reader(self, request: GenerationRequest) -> ReaderOf | None:
        """Return a maker of readers for answers, if the request gave tools."""
        if request.tools is None:
            return None
        return reader_of(request, FORMATS[self._maker.model(request.model).tool_format])

    def _caller(self, context: Context) -> Caller:
        caller = self.door.caller(context)
        if caller.account is not None:
            note_client(caller.client.name)
        return caller

    async def _asked(
        self,
        message: pb.GenerateRequest | pb.GenerateStreamRequest,
        context: Context,
        size: int,
    ) -> tuple[GenerationRequest, int]:
        """Return the request of a message, and its size with the constraint it names."""
        if isinstance(message, pb.GenerateRequest):
            return await self.reader.read(message, context, size)
        check = partial(refuse_unknown_fields, message, inside=False)  # the request is checked next
        return await self.reader.read(message.request, context, size, check_around=check)

    def _status(self, error: GuidedError) -> status_pb2.Status:
        return status_of(error, self._config.retry_after_seconds)

    def _check_batch(self, size: int) -> None:
        limit = self._config.max_batch_size
        if size > limit:
            raise LimitExceededError(
                f"the batch has {size} requests, above the limit of {limit}",
                limit=limit,
                field="requests",
                hint="split the batch",
            )


class ModelSource(Protocol):
    """Facts about the model; raises ``ServiceUnavailableError`` while none is loaded."""

    def models(self) -> Sequence[ModelInfo]:
        """Return the loaded models; the first answers requests that name none."""

    def stats(self) -> EngineStats:
        """Return the engine's last statistics."""


class Tokenizer(Protocol):
    """Makes tokens of prompts, and text of tokens."""

    async def tokenize(
        self, request: GenerationRequest, received: float, *, texts: bool = False
    ) -> PromptTokens:
        """Return the tokens of a request's prompt, with ``texts`` also what they stand for.

        The deadline counts from when the request was ``received``; cancelling this call ends it.
        """

    async def detokenize(self, tokens: tuple[TokenId, ...], model: str = "") -> bytes:
        """Return the text of a model's tokens; raises ``RequestError`` for an unknown token."""


class Engine(AnswerMaker, ModelSource, Tokenizer, Protocol):
    """Makes answers and tokens, and reports on the model."""
