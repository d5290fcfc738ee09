"""Keeps an engine process running, and fails its requests when it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec
import structlog

from guided.errors import GuidedError, ServiceUnavailableError
from guided.spec import GenerationRequest, GenerationResult, PromptTokens, TokenId
from guided.spec.findings import Finding
from guided.spec.model_name import check_model
from guided.spec.prompt_bound import PromptBound
from guided.stats import EngineStats, ModelInfo
from guided_service.config import ServerConfig
from guided_service.descriptors import DescriptorReserve
from guided_service.engine_connection import CutOffError, EngineConnection
from guided_service.launcher import ForkingLauncher, Launcher, SpawningLauncher
from guided_service.messages import Inspect, LogChoice, ModelChoice
from guided_service.socket_folder import remove_left_folders
from guided_service.stream_events import StreamEvent

__all__ = ["EngineSupervisor", "HealthListener", "choice_of", "log_choice_of"]

HealthListener = Callable[[bool], Awaitable[None]]
"""Called with whether requests are taken, whenever that changes."""

_STOP_SECONDS = 5.0
"""How long an engine may take to finish its step and end."""

_STARTING = "is starting"

_log = structlog.get_logger()


def choice_of(config: ServerConfig) -> ModelChoice:
    """Return the part of a server's settings that its engine needs."""
    names = ModelChoice.__struct_fields__
    choice = ModelChoice(**{name: getattr(config, name) for name in names})
    # It is sent to another process as a plain number.
    nbytes = None if config.kv_memory is None else int(config.kv_memory)
    return msgspec.structs.replace(choice, kv_memory=nbytes)


def log_choice_of(config: ServerConfig) -> LogChoice:
    """Return the log settings of the engine, the same as its server's."""
    return LogChoice(config.log_format, config.log_level)


class EngineSupervisor:
    """The engine as the rest of the server sees it: ready, or being started."""

    def __init__(
        self, command: Sequence[str], config: ServerConfig, set_serving: HealthListener
    ) -> None:
        launcher = ForkingLauncher if config.standby else SpawningLauncher
        self._launcher: Launcher = launcher(command)
        self._config = config
        self._set_serving = set_serving
        self._connection: EngineConnection | None = None
        self._absence: str | None = _STARTING
        """Why requests are not taken; ``None`` while they are."""
        self._model: ModelInfo | None = None
        self._prompt_bound: PromptBound | None = None
        self._reserve = DescriptorReserve()
        self.starts = 0
        """How many engines have become ready, each with empty caches."""

    async def run(self) -> None:
        """Start the engine, and restart it whenever it ends, until cancelled.

        Raises the error of a failed first start; later starts are retried until they succeed.
        """
        remove_left_folders()
        await self._start()
        while True:
            assert self._connection is not None, "the engine was not started"
            ending = await self._serve(self._connection)
            await self._lose()
            _log.error("engine lost", ending=ending)
            await self._restart()

    async def _serve(self, connection: EngineConnection) -> str:
        """Deliver answers and watch the process until it ends; returns how it ended."""
        watching = asyncio.create_task(connection.watch(self._config, self._set_alive))
        try:
            return await connection.serve()
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _set_alive(self, is_alive: bool) -> None:
        """Take requests only while the engine responds."""
        self._absence = None if is_alive else "does not answer"
        if is_alive:
            _log.info("engine is heard of again")
        else:
            _log.error("engine has fallen silent", seconds=self._config.silence_seconds)
        await self._set_serving(is_alive)

    def check_ready(self) -> None:
        self._ready_connection()

    def check_prompt(self, request: GenerationRequest) -> None:
        if self._prompt_bound is not None:
            self._prompt_bound.check(request.prompt)

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        return await self._ready_connection().generate(request, received, client)

    async def inspect(self, asked: Inspect) -> Finding:
        self.model(asked.model)
        return await self._ready_connection().inspect(asked)

    async def tokenize(
        self, request: GenerationRequest, received: float, *, texts: bool = False
    ) -> PromptTokens:
        return await self._ready_connection().tokenize(request, received, texts=texts)

    async def detokenize(self, tokens: tuple[TokenId, ...], model: str = "") -> bytes:
        self.model(model)
        return await self._ready_connection().detokenize(tokens)

    def model(self, name: str = "") -> ModelInfo:
        """Return the loaded model, requested by its name or an empty one.

        Raises ``ServiceUnavailableError`` while none is loaded, UnknownModelError for another name.
        """
        self.check_ready()
        assert self._model is not None, "an engine is ready without a model"
        check_model(name, (self._model.name,))
        return self._model

    def models(self) -> tuple[ModelInfo, ...]:
        """Return all models: the loaded one."""
        return (self.model(),)

    def model_name(self, asked: str | None = None) -> str | None:
        """Return the last loaded model's name, unless ``asked`` names another."""
        name = None if self._model is None else self._model.name
        return None if asked and asked != name else name

    @property
    def prompt_bound(self) -> PromptBound | None:
        """The bound on prompts; ``None`` if only tokens decide, or no model was loaded."""
        return self._prompt_bound

    def stats(self) -> EngineStats:
        stats = self._ready_connection().stats
        if stats is None:
            raise ServiceUnavailableError("the engine has just started", hint="try again shortly")
        return stats

    def stream(
        self,
        request: GenerationRequest,
        received: float,
        client: str = "",
        *,
        is_watched: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        return self._ready_connection().stream(request, received, client, is_watched=is_watched)

    def cut_off(self, seconds: float) -> None:
        """Fail the requests that still run after the ``seconds`` of a drain."""
        if self._connection is not None:
            self._connection.fail_all(
                CutOffError(
                    f"the server was stopping and cut the request off after {seconds:g} s",
                    hint="try again once it is back",
                )
            )

    async def stop(self) -> None:
        """End the engine process."""
        connection, was_ready = self._connection, self._absence is None
        self._connection, self._absence = None, "is stopping"
        self._reserve.close()
        if connection is not None:
            # An engine that is still loading would not read the request to stop for minutes.
            await connection.stop(_STOP_SECONDS if was_ready else 0.0)
        await self._launcher.forget()

    async def _start(self) -> None:
        begun = time.monotonic()
        with self._reserve.lent():
            self._connection = await EngineConnection.start(
                self._launcher, choice_of(self._config), log_choice_of(self._config)
            )
        ready = await self._connection.ready()
        self._model, self._prompt_bound = ready.model, ready.prompt_bound
        self._absence = None
        self.starts += 1
        await self._set_serving(True)
        _log.info(
            "engine ready",
            model=self._model.name,
            process=self._connection.process_id,
            seconds=round(time.monotonic() - begun, 1),
        )

    def _ready_connection(self) -> EngineConnection:
        if self._connection is None or self._absence is not None:
            raise ServiceUnavailableError(f"the engine {self._absence}", hint="try again shortly")
        return self._connection

    async def _restart(self) -> None:
        delay = self._config.restart_backoff_seconds
        while True:
            await asyncio.sleep(delay)
            try:
                await self._start()
            except GuidedError as error:
                delay = min(2 * delay, self._config.max_restart_backoff_seconds)
                await self._lose()
                # The fault may be in what the launcher keeps.
                await self._launcher.forget()
                _log.error("engine not started", error=str(error), next_try_seconds=delay)
            else:
                return

    async def _lose(self) -> None:
        self._absence = _STARTING
        connection, self._connection = self._connection, None
        await self._set_serving(False)
        if connection is not None:
            connection.close()
