"""One replica of the deployment ``Engine``: an engine process, kept running as by a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

import msgspec
from ray import serve

from guided.errors import ServiceUnavailableError
from guided.spec import GenerationRequest, GenerationResult, TokenId
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request
from guided_service.config import ServerConfig
from guided_service.engine_connection import CutOffError
from guided_service.engine_supervisor import EngineSupervisor, log_choice_of
from guided_service.logs import configure_logs
from guided_service.messages import (
    Answered,
    Detokenize,
    Found,
    Grown,
    Inspect,
    Ready,
    Tokenize,
)
from guided_service.ray.messages import Absent, Asked, Reply, Reported, failed, write_reply
from guided_service.stream_events import StreamEvent

__all__ = ["BEGUN", "KV_USE", "Engine", "reply_of_event"]

KV_USE: Final = "kv_use"
"""The share of the cache's blocks that running requests hold, for the router and autoscaling."""

BEGUN: Final = "begun"
"""How many engines the replica has had; each starts with empty caches."""

_Told = ParamSpec("_Told")


def _written(
    method: Callable[Concatenate[Engine, _Told], Awaitable[Reply]],
) -> Callable[Concatenate[Engine, _Told], Coroutine[Any, Any, bytes]]:
    """Encode the reply of a method; an exception becomes a reply too, not an error of Ray's."""

    @wraps(method)
    async def write(engine: Engine, /, *told: _Told.args, **named: _Told.kwargs) -> bytes:
        try:
            return write_reply(await method(engine, *told, **named))
        except Exception as error:
            return write_reply(engine.reply_to(error))

    return write


class Engine:
    """Generates answers; takes and returns bytes, except for what the router reads."""

    def __init__(self, settings: Mapping[str, object], command: Sequence[str]) -> None:
        config = ServerConfig.model_validate(settings)
        configure_logs(log_choice_of(config))
        self._serving = asyncio.Event()
        self._supervisor = EngineSupervisor(command, config, self._set_serving)
        self._life: asyncio.Task[None] | None = None
        self._replica: str = serve.get_replica_context().replica_id.unique_id

    async def check_health(self) -> None:
        """Return once the engine has been ready for the first time; raises if it cannot start.

        Ray sends a replica no request before its first return, and ends one that raises. An engine
        lost later is restarted by its supervisor within seconds; other replicas take its requests
        meanwhile.
        """
        if self._life is None:
            self._life = asyncio.create_task(self._supervisor.run())
        ready = asyncio.create_task(self._serving.wait())
        await asyncio.wait({self._life, ready}, return_when=asyncio.FIRST_COMPLETED)
        if self._life.done():
            ready.cancel()
            self._life.result()

    @_written
    async def ready(self) -> Reply:
        """Return the loaded model and the bound on prompts: ``Ready``."""
        return Ready(self._supervisor.model(), self._supervisor.prompt_bound)

    @_written
    async def report(self) -> Reply:
        """Return the engine's statistics: ``Reported``."""
        return Reported(self._replica, self._supervisor.stats())

    @_written
    async def generate(self, asked: Asked) -> Reply:
        """Generate one answer."""
        return Answered("", await self._supervisor.generate(*_request_of(asked)))

    async def stream(self, asked: Asked) -> AsyncIterator[bytes]:
        """Generate one answer and yield its text as it grows."""
        try:
            async with aclosing(self._supervisor.stream(*_request_of(asked))) as events:
                async for event in events:
                    yield write_reply(reply_of_event(event))
        except Exception as error:
            yield write_reply(self.reply_to(error))

    @_written
    async def inspect(self, asked: Asked) -> Reply:
        """Work on a constraint."""
        inspect = msgspec.msgpack.decode(asked.content, type=Inspect)
        deadline = None if asked.seconds is None else time.monotonic() + asked.seconds
        inspect = msgspec.structs.replace(inspect, deadline=deadline)
        return Found.of("", await self._supervisor.inspect(inspect))

    @_written
    async def tokenize(self, asked: Asked) -> Reply:
        """Make the tokens of a prompt."""
        tokenize = msgspec.msgpack.decode(asked.content, type=Tokenize)
        received = time.monotonic() - (asked.seconds or 0.0)
        request, texts = tokenize.request(), tokenize.texts
        return Found.of("", await self._supervisor.tokenize(request, received, texts=texts))

    @_written
    async def detokenize(self, asked: Asked) -> Reply:
        """Make the text of tokens."""
        tokens = msgspec.msgpack.decode(asked.content, type=Detokenize).tokens
        return Found.of("", await self._supervisor.detokenize(tuple(map(TokenId, tokens))))

    def record_routing_stats(self) -> dict[str, float]:
        """Return the statistics that the router requests periodically."""
        return {KV_USE: self._kv_use(), BEGUN: self._supervisor.starts}

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return what autoscaling uses in addition to Ray's count of requests."""
        return {KV_USE: self._kv_use()}

    def reply_to(self, error: Exception) -> Reply:
        """Return the reply that stands for an error."""
        if isinstance(error, ServiceUnavailableError) and not isinstance(error, CutOffError):
            return Absent(self._replica)  # the engine took nothing
        return failed(error)

    def _kv_use(self) -> float:
        try:
            cache = self._supervisor.stats().cache
        except ServiceUnavailableError:
            return 0.0  # an engine that has just started holds nothing
        return cache.held / max(1, cache.free + cache.held + cache.cached)

    async def _set_serving(self, is_serving: bool) -> None:
        if is_serving:
            self._serving.set()


def _request_of(asked: Asked) -> tuple[GenerationRequest, float, str]:
    """Return the request, when it was received by this node's clock, and its client."""
    received = time.monotonic() - (asked.seconds or 0.0)
    request = decode_request(pb.GenerateRequest.FromString(asked.content))
    return request, received, asked.client


def reply_of_event(event: StreamEvent) -> Reply:
    """Return the reply that stands for an event of a stream."""
    return Answered("", event) if isinstance(event, GenerationResult) else Grown((event,))
