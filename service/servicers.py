"""The calls of both services, and the refusal of messages that cannot be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from typing_extensions import override

from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    LimitExceededError,
    RequestCancelledError,
    RequestError,
)
from guided.spec import LONGEST_DEADLINE, MAX_NESTING, GenerationRequest, GenerationResult
from guided.stats import EngineStats, ModelInfo
from guided.v1 import generation_pb2 as pb
from guided.v1 import model_pb2
from guided.v1.generation_pb2_grpc import GenerationServiceServicer
from guided.v1.model_pb2_grpc import ModelServiceServicer
from guided.wire import refuse_unknown_fields
from guided.wire_request import decode_request
from guided_service.admission import Admission
from guided_service.config import ServerConfig
from guided_service.encode import encode_event, encode_model, encode_result, encode_stats
from guided_service.repeats import Repeats, digest_of, key_of
from guided_service.request_ids import check_request_id, named
from guided_service.status import Context, abort, shown, status_of

__all__ = [
    "AnswerMaker",
    "GenerationServicer",
    "ModelServicer",
    "ModelSource",
    "RefusesUnreadable",
]

T = TypeVar("T")

_DELIVERY_SECONDS = 0.1
"""Seconds of a call's deadline that are kept for sending the answer to the caller."""


class AnswerMaker(Protocol):
    """Where answers come from."""

    def check_ready(self) -> None:
        """Raise ``ServiceUnavailableError`` unless requests are taken."""

    async def generate(self, request: GenerationRequest, received: float) -> GenerationResult:
        """Make one answer; cancelling the caller frees what it holds.

        Deadline and priority count from when the request was ``received`` (``time.monotonic``).
        """

    def stream(
        self, request: GenerationRequest, received: float
    ) -> AsyncGenerator[str | GenerationResult, None]:
        """Make one answer: its text as it grows, then the answer; closing frees what it holds."""


class GenerationServicer(GenerationServiceServicer):
    """Checks calls, has their answers made, and gives each failure its status."""

    def __init__(self, maker: AnswerMaker, config: ServerConfig) -> None:
        self._maker = maker
        self._config = config
        self.admission = Admission(
            config.max_requests_in_flight, config.max_requests_queued, config.max_queued_bytes
        )
        self._repeats = Repeats()

    @override
    async def Generate(self, request: pb.GenerateRequest, context: Context) -> pb.GenerateResponse:
        """Make one answer."""
        with named(request.request_id):
            return await self._or_abort(context, self._admit_one(request, context))

    # The generated type expects a handler that yields. One that writes is cancelled in its own
    # frame when the client goes away, so it can stop everything that it started.
    @override
    async def GenerateStream(  # type: ignore[override]
        self, request: pb.GenerateStreamRequest, context: Context
    ) -> None:
        """Make one answer and send its text as it grows."""
        with named(request.request.request_id):
            await self._or_abort(context, self._admit_stream(request, context))

    @override
    async def GenerateBatch(  # type: ignore[override]
        self, request: pb.GenerateBatchRequest, context: Context
    ) -> None:
        """Make many answers and send each once it is there."""
        await self._or_abort(context, self._admit_all(request, context))

    async def _admit_one(
        self, request: pb.GenerateRequest, context: Context
    ) -> pb.GenerateResponse:
        size = self._check_size(request.ByteSize())
        self._maker.check_ready()
        return await self._answer(request, context, size, time.monotonic())

    async def _admit_stream(self, message: pb.GenerateStreamRequest, context: Context) -> None:
        size = self._check_size(message.ByteSize())
        self._maker.check_ready()
        refuse_unknown_fields(message)
        request, received = _asked(message.request, context), time.monotonic()
        async with (
            self._admitted(request, size, received),
            aclosing(self._maker.stream(request, received)) as events,
        ):
            async for event in events:
                await self._write(encode_event(event), context)

    async def _write(
        self, message: pb.GenerateStreamResponse | pb.GenerateBatchResponse, context: Context
    ) -> None:
        """Send a message, once the caller has read enough of those before it."""
        seconds = self._config.stall_seconds
        try:
            async with asyncio.timeout(seconds):
                await context.write(message)
        except TimeoutError as error:
            raise RequestCancelledError(
                f"the caller took nothing of the stream for {seconds:g} s",
                hint="read faster, or ask for less at once",
            ) from error

    async def _admit_all(self, batch: pb.GenerateBatchRequest, context: Context) -> None:
        size = self._check_size(batch.ByteSize())
        self._check_batch(len(batch.requests))
        self._maker.check_ready()
        # Whole or not at all. Then each takes a place of its own, until it has its answer.
        self.admission.check_room(len(batch.requests), size)
        await self._answer_all(batch, context, time.monotonic())

    async def _answer_all(
        self, batch: pb.GenerateBatchRequest, context: Context, received: float
    ) -> None:
        running = [
            asyncio.create_task(self._outcome(index, request, context, received))
            for index, request in enumerate(batch.requests)
        ]
        try:
            for outcome in asyncio.as_completed(running):
                await self._write(await outcome, context)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _outcome(
        self, index: int, request: pb.GenerateRequest, context: Context, received: float
    ) -> pb.GenerateBatchResponse:
        with named(request.request_id):
            try:
                response = await self._answer(request, context, request.ByteSize(), received)
            except Exception as error:
                return pb.GenerateBatchResponse(index=index, error=self._status(shown(error)))
        return pb.GenerateBatchResponse(index=index, response=response)

    async def _answer(
        self, message: pb.GenerateRequest, context: Context, size: int, received: float
    ) -> pb.GenerateResponse:
        request = _asked(message, context)
        make = partial(self._make, request, size, received)
        if not message.request_id:
            return await make()
        return await self._repeats.answer(key_of(message, context), digest_of(message), make)

    async def _make(
        self, request: GenerationRequest, size: int, received: float
    ) -> pb.GenerateResponse:
        async with self._admitted(request, size, received):
            result = await self._maker.generate(request, received)
        # Its place is free: an answer that waits to be read keeps nobody else from being served.
        return encode_result(result)

    def _admitted(
        self, request: GenerationRequest, size: int, received: float
    ) -> AbstractAsyncContextManager[None]:
        """A place for a request, which it waits for in its order and within its deadline."""
        return self.admission.admitted(request.queue_key(received), size, seconds=request.deadline)

    async def _or_abort(self, context: Context, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(context.time_remaining()):
                return await work
        except TimeoutError:
            failure: Exception = DeadlineExceededError(
                "the call's deadline passed before its answer was complete",
                hint="allow more time, or fewer tokens",
            )
        except Exception as error:
            failure = error
        return await abort(context, failure, self._config.retry_after_seconds)

    def _status(self, error: GuidedError) -> status_pb2.Status:
        return status_of(error, self._config.retry_after_seconds)

    def _check_size(self, size: int) -> int:
        limit = self._config.max_message_bytes
        if size > limit:
            raise LimitExceededError(
                f"the call's message has {size} bytes, above the limit of {limit}",
                limit=limit,
                hint="send less in one call",
            )
        return size

    def _check_batch(self, size: int) -> None:
        limit = self._config.max_batch_size
        if size > limit:
            raise LimitExceededError(
                f"the batch has {size} requests, above the limit of {limit}",
                limit=limit,
                field="requests",
                hint="split the batch",
            )


def _asked(message: pb.GenerateRequest, context: Context) -> GenerationRequest:
    """Decode the request; its deadline is a little before that of the call."""
    check_request_id(message.request_id)
    remaining = context.time_remaining()
    if remaining is None:
        return decode_request(message)
    # A deadline that has almost passed is for the engine to refuse.
    seconds = min(max(remaining - _DELIVERY_SECONDS, 1e-3), LONGEST_DEADLINE)
    return decode_request(message, latest_seconds=seconds)


# ModelService


class ModelSource(Protocol):
    """Where facts about the model come from; ``ServiceUnavailableError`` while there is none."""

    def model(self) -> ModelInfo:
        """The model that is loaded."""

    def stats(self) -> EngineStats:
        """What its engine said last about what it has done."""


class ModelServicer(ModelServiceServicer):
    """Tells about the model and its engine."""

    def __init__(self, source: ModelSource, config: ServerConfig) -> None:
        self._source = source
        self._config = config

    @override
    async def GetModel(
        self, request: model_pb2.GetModelRequest, context: Context
    ) -> model_pb2.GetModelResponse:
        """Name the model."""
        try:
            return model_pb2.GetModelResponse(model=encode_model(self._source.model()))
        except Exception as error:
            await abort(context, error, self._config.retry_after_seconds)

    @override
    async def GetStats(
        self, request: model_pb2.GetStatsRequest, context: Context
    ) -> model_pb2.GetStatsResponse:
        """Count what the engine has done."""
        try:
            return model_pb2.GetStatsResponse(stats=encode_stats(self._source.stats()))
        except Exception as error:
            await abort(context, error, self._config.retry_after_seconds)


# Messages that protobuf cannot read, which gRPC by itself calls a fault of the server


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Stands for a message that protobuf cannot read."""


class RefusesUnreadable(grpc.aio.ServerInterceptor):
    """Refuses messages of one service that cannot be read, as mistakes of their senders."""

    def __init__(self, service: str, retry_after_seconds: float) -> None:
        self._methods = f"/{service}/"
        self._retry_after_seconds = retry_after_seconds

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._methods):
            return handler
        assert not handler.request_streaming, "one message asks for all there is"
        read = handler.request_deserializer

        def tried(message: bytes) -> object:
            try:
                return read(message)
            except DecodeError:
                return _Unreadable()

        make = (
            grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        answered = handler.unary_stream if handler.response_streaming else handler.unary_unary
        return make(self._checked(answered), tried, handler.response_serializer)

    def _checked(self, answer: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def answer_readable(message: object, context: Context) -> Any:
            if isinstance(message, _Unreadable):
                error = RequestError(
                    "the message of the call cannot be read as protobuf",
                    hint=f"nest its messages less deeply; constraints may stand {MAX_NESTING} deep",
                )
                await abort(context, error, self._retry_after_seconds)
            return await answer(message, context)

        return answer_readable
