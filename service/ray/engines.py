"""Presents all engines of a model as one maker of answers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from contextvars import Context
from typing import Any, Final, Never

import msgspec
import structlog
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from guided.errors import GuidedError, ServiceUnavailableError, incident_of
from guided.spec import GenerationRequest, GenerationResult, PromptTokens, TokenId
from guided.spec.findings import Finding
from guided.spec.prompt_bound import PromptBound
from guided.stats import EngineStats, ModelInfo
from guided.v1 import generation_pb2 as pb
from guided.wire_request import encode_request
from guided_service.config import ServerConfig
from guided_service.engine_connection import CutOffError
from guided_service.messages import (
    Answered,
    Detokenize,
    Failed,
    Found,
    Grown,
    Inspect,
    Ready,
    Tokenize,
    read_finding,
    read_prompt_tokens,
    read_text,
    write,
)
from guided_service.ray.affinity import Affinity, affinity_of
from guided_service.ray.messages import Absent, Asked, CutOff, Reply, Reported, error_of, read_reply
from guided_service.ray.totals import total_of
from guided_service.ray.worth import Worth
from guided_service.stream_events import StreamEvent

__all__ = ["Engines"]

_LOOK_SECONDS: Final = 1.0
"""Time between two looks at the engines."""

_log = structlog.get_logger()


class Engines:
    """Sends each request to the engine that Ray's router chooses for it.

    A request whose engine ends while it runs fails and is not retried: it may have ended the
    engine. A request that reaches a replica whose engine is restarting moves on to another replica.
    If no replica exists for a moment, requests wait for the next one within their deadline.
    """

    def __init__(self, handle: DeploymentHandle[Any], config: ServerConfig) -> None:
        self._handle = handle
        self._config = config
        self.is_serving = False
        """Whether any engine is ready."""
        self._model: ModelInfo | None = None
        self._prompt_bound: PromptBound | None = None
        self._reports: Mapping[str, EngineStats | None] = {}
        self._stats: EngineStats | None = None
        self._worth = Worth()
        self._heard = -math.inf
        """When an engine last reported that it is ready."""

    async def watch(self, set_serving: Callable[[bool], Awaitable[None]]) -> Never:
        """Check the engines periodically, and report whether any is ready."""
        patience = self._config.silence_seconds
        while True:
            await _looked(self._ask_one(), patience)
            # An engine that hangs delays the statistics of all, but not the news that others are
            # ready.
            await _looked(self._ask_all(), patience / 3)
            is_there = time.monotonic() - self._heard < patience
            if is_there != self.is_serving:
                self.is_serving = is_there
                await set_serving(is_there)
            await asyncio.sleep(_LOOK_SECONDS)

    def check_ready(self) -> None:
        """Raise ``ServiceUnavailableError`` unless an engine is ready."""
        if not self.is_serving:
            raise ServiceUnavailableError("no engine is ready", hint="try again shortly")

    def check_prompt(self, request: GenerationRequest) -> None:
        if self._prompt_bound is not None:
            self._prompt_bound.check(request.prompt)

    def model(self) -> ModelInfo:
        """Return the model that all engines have loaded."""
        self.check_ready()
        return self.known_model()

    def known_model(self) -> ModelInfo:
        """Return the model, even if none is ready; ``ServiceUnavailableError`` before any was."""
        if self._model is None:
            raise ServiceUnavailableError("no engine was ready yet", hint="try again shortly")
        return self._model

    def model_name(self) -> str | None:
        """Return the name of the model, once it is known."""
        return None if self._model is None else self._model.name

    def stats(self) -> EngineStats:
        """Return the summed statistics of the current engines, about a second old."""
        self.check_ready()
        if self._stats is None:
            raise ServiceUnavailableError("the engines have just started", hint="try again shortly")
        return self._stats

    def reports(self) -> Mapping[str, EngineStats | None]:
        """Return the last statistics by replica, about a second old.

        They are ``None`` for a replica that is replacing its engine.
        """
        return self._reports if self.is_serving else {}

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        """Generate one answer for a client; cancelling this call cancels it in its engine."""
        asked = self._asked(request, received, client)
        reply = await _told(self._handle.generate.remote, asked)
        assert isinstance(reply, Answered), f"an engine answered {reply!r}"
        self._learn(asked, reply.result)
        return reply.result

    async def inspect(self, asked: Inspect) -> Finding:
        """Work on a constraint, in an engine that may have it already."""
        constraint = pb.Constraint.FromString(asked.constraint)
        affinity = self._worth.weighed(affinity_of(pb.GenerateRequest(constraint=constraint)))
        seconds = None if asked.deadline is None else asked.deadline - time.monotonic()
        ask = self._handle.inspect.remote
        found = await self._found(ask, Asked(affinity, write(asked), seconds))
        return read_finding[asked.what](found)

    async def tokenize(
        self, request: GenerationRequest, received: float, *, texts: bool
    ) -> PromptTokens:
        """Return the tokens of a request's prompt, made by any engine."""
        message = Tokenize.of("", request, received=received, texts=texts)
        asked = Asked(Affinity(), write(message), time.monotonic() - received)
        return read_prompt_tokens(await self._found(self._handle.tokenize.remote, asked))

    async def detokenize(self, tokens: tuple[TokenId, ...]) -> bytes:
        """Return the text that tokens stand for, made by any engine."""
        asked = Asked(Affinity(), write(Detokenize("", tokens)), None)
        return read_text(await self._found(self._handle.detokenize.remote, asked))

    async def stream(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> AsyncGenerator[StreamEvent, None]:
        """Generate one answer and yield it as it grows; closing cancels it in its engine."""
        asked = self._asked(request, received, client)
        ask = self._handle.options(stream=True).stream.remote
        while True:
            async with aclosing(_streamed(ask, asked)) as replies:
                async for reply in replies:
                    if isinstance(reply, Absent):
                        asked = asked.elsewhere(reply)
                        break
                    event = _event_of(reply)
                    if isinstance(event, GenerationResult):
                        self._learn(asked, event)
                    yield event
                else:
                    return

    async def _found(self, ask: Callable[..., Any], asked: Asked) -> msgspec.Raw:
        reply = await _told(ask, asked)
        assert isinstance(reply, Found), f"an engine said {reply!r}"
        return reply.finding

    def _asked(self, request: GenerationRequest, received: float, client: str) -> Asked:
        message = encode_request(request)
        affinity = self._worth.weighed(affinity_of(message))
        return Asked(affinity, message.SerializeToString(), time.monotonic() - received, client)

    def _learn(self, asked: Asked, result: GenerationResult) -> None:
        self._worth.learn(asked.affinity, result.usage, result.timing)

    async def _ask_one(self) -> None:
        """Ask any engine which model it has."""
        reply = _result(await self._handle.ready.remote())
        assert isinstance(reply, Absent | Ready), f"an engine said {reply!r} of its model"
        if isinstance(reply, Ready):
            self._model, self._prompt_bound = reply.model, reply.prompt_bound
            self._heard = time.monotonic()

    async def _ask_all(self) -> None:
        """Ask for the statistics of all engines, and add up those that report any."""
        told = await self._handle.broadcast("report").results_async(return_exceptions=True)
        replies = [read_reply(each) for each in told if isinstance(each, bytes)]
        reports = {each.replica: each.stats for each in replies if isinstance(each, Reported)}
        known: dict[str, EngineStats | None] = dict.fromkeys(
            each.replica for each in replies if isinstance(each, Absent)
        )
        self._reports = known | reports
        self._stats = total_of([*reports.values()]) or self._stats


async def _looked(look: Awaitable[None], seconds: float) -> None:
    """Look at engines, which may end or hang meanwhile: the next look may find others."""
    try:
        async with asyncio.timeout(seconds):
            await look
    except (TimeoutError, GuidedError, RayError, RayServeException) as error:
        _log.warning("an engine does not answer", error=type(error).__name__)
    except Exception as error:
        # A fault of ours must not end later looks or those at other models.
        incident_of(error, "a look at the engines failed")


async def _told(ask: Callable[..., Any], asked: Asked) -> Reply:
    """Return the reply of an engine that is running."""
    while True:
        answering = _begun(ask, asked)
        try:
            reply = _result(await answering)
        except (RayError, RayServeException) as error:
            raise _shown(error) from error
        finally:
            answering.cancel()
        if not isinstance(reply, Absent):
            return reply
        asked = asked.elsewhere(reply)


async def _streamed(ask: Callable[..., Any], asked: Asked) -> AsyncGenerator[Reply, None]:
    """Yield the replies of one engine."""
    answering = _begun(ask, asked)
    try:
        async for reply in answering:
            yield _result(reply)
    except (RayError, RayServeException) as error:
        raise _shown(error) from error
    finally:
        answering.cancel()


def _begun(ask: Callable[..., Any], asked: Asked) -> Any:
    """Begin a call that Ray treats as separate.

    Calls made for one call, like those of a batch, share its id, and Ray's router finds only one
    waiting call per id.
    """
    return Context().run(ask, asked)


def _result(payload: bytes) -> Reply:
    """Return an engine's reply, or raise its error."""
    reply = read_reply(payload)
    if isinstance(reply, CutOff | Failed):
        raise error_of(reply)
    return reply


def _event_of(reply: Reply) -> StreamEvent:
    match reply:
        case Answered():
            return reply.result
        case Grown((delta,)):
            return delta
        case _:
            raise AssertionError(f"an engine streamed {reply!r}")


def _shown(error: Exception) -> Any:
    """Return the error that callers see for an error of Ray's."""
    match error:
        case RayTaskError():
            return error  # a fault of ours: engines let no error out
        case RayError():
            _log.warning("engine lost", error=type(error).__name__)
            return CutOffError("the engine ended while the request ran", hint="try again")
        case _:
            return ServiceUnavailableError(f"Ray takes no request: {error}", hint="try again")
