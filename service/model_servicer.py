"""The calls of ModelService."""

from __future__ import annotations

from typing import Protocol

from typing_extensions import override

from guided.stats import EngineStats, ModelInfo
from guided.v1 import model_pb2 as pb
from guided.v1.model_pb2_grpc import ModelServiceServicer
from guided_service.abort import Context, abort
from guided_service.config import ServerConfig
from guided_service.encode import encode_model, encode_stats

__all__ = ["ModelServicer", "ModelWitness"]


class ModelWitness(Protocol):
    """Who knows about the model; raises ``ServiceUnavailableError`` while there is none."""

    def model(self) -> ModelInfo:
        """The model that is loaded."""

    def stats(self) -> EngineStats:
        """What its engine said last about what it has done."""


class ModelServicer(ModelServiceServicer):
    """Tells about the model and its engine."""

    def __init__(self, witness: ModelWitness, config: ServerConfig) -> None:
        self._witness = witness
        self._config = config

    @override
    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.GetModelResponse:
        """Name the model."""
        try:
            return pb.GetModelResponse(model=encode_model(self._witness.model()))
        except Exception as error:
            await abort(context, error, self._config.retry_after_seconds)

    @override
    async def GetStats(self, request: pb.GetStatsRequest, context: Context) -> pb.GetStatsResponse:
        """Count what the engine has done."""
        try:
            return pb.GetStatsResponse(stats=encode_stats(self._witness.stats()))
        except Exception as error:
            await abort(context, error, self._config.retry_after_seconds)
