"""Serves the calls about the model: its facts, its engine's counters, and its tokens."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from typing_extensions import override

from guided.errors import RequestError
from guided.v1 import model_pb2
from guided.v1.model_pb2_grpc import ModelServiceServicer
from guided.wire import refuse_unknown_fields
from guided_service.calls import aborts_on_error
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.encode import encode_model, encode_prompt_tokens, encode_stats
from guided_service.intake import size_of_message
from guided_service.request_reader import RequestReader
from guided_service.servicers import Engine
from guided_service.status import Context

__all__ = ["ModelServicer"]


class ModelServicer(ModelServiceServicer):
    """Reports on the model and its engine; tokens are made in places shared with answers."""

    def __init__(
        self, engine: Engine, door: Door, reader: RequestReader, config: ServerConfig
    ) -> None:
        self._engine = engine
        self._door = door
        self._reader = reader
        self._config = config

    @override
    @aborts_on_error
    async def GetModel(
        self, request: model_pb2.GetModelRequest, context: Context
    ) -> model_pb2.GetModelResponse:
        refuse_unknown_fields(request)
        return model_pb2.GetModelResponse(model=encode_model(self._engine.models()[0]))

    @override
    @aborts_on_error
    async def ListModels(
        self, request: model_pb2.ListModelsRequest, context: Context
    ) -> model_pb2.ListModelsResponse:
        refuse_unknown_fields(request)
        models = map(encode_model, self._engine.models())
        return model_pb2.ListModelsResponse(models=models)

    @override
    @aborts_on_error
    async def GetStats(
        self, request: model_pb2.GetStatsRequest, context: Context
    ) -> model_pb2.GetStatsResponse:
        refuse_unknown_fields(request)
        admission = self._door.admission
        stats = replace(
            self._engine.stats(), in_flight=admission.in_flight, queued=admission.waiting
        )
        return model_pb2.GetStatsResponse(stats=encode_stats(stats))

    @override
    @aborts_on_error
    async def Tokenize(
        self, request: model_pb2.TokenizeRequest, context: Context
    ) -> model_pb2.TokenizeResponse:
        self._engine.check_ready()
        if not request.HasField("request"):
            raise RequestError("the call has no request", field="request")
        size, received = size_of_message(request), time.monotonic()
        caller = self._door.caller(context)
        check = partial(refuse_unknown_fields, request, inside=False)  # the request is checked next
        asked, _ = await self._reader.read(request.request, context, size, check_around=check)
        async with self._door.working(caller, received, seconds=asked.deadline):
            found = await self._engine.tokenize(asked, received, texts=request.texts)
        return encode_prompt_tokens(found)

    @override
    @aborts_on_error
    async def Detokenize(
        self, request: model_pb2.DetokenizeRequest, context: Context
    ) -> model_pb2.DetokenizeResponse:
        self._engine.check_ready()
        refuse_unknown_fields(request)
        size, received = size_of_message(request), time.monotonic()
        caller = self._door.caller(context)
        tokens = await self._reader.read_tokens(request.tokens, request.model, size)
        async with self._door.working(caller, received, seconds=context.time_remaining()):
            text = await self._engine.detokenize(tokens, request.model)
        return model_pb2.DetokenizeResponse(text=text)
