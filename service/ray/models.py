"""Several models as one, as the servicers see them: a request goes to the engines of its model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from ray.serve.handle import DeploymentHandle

from guided.errors import ServiceUnavailableError
from guided.spec import GenerationRequest, GenerationResult
from guided.spec.findings import Finding
from guided.spec.model_name import check_model
from guided.stats import EngineStats, ModelInfo
from guided_service.config import ServerConfig
from guided_service.messages import Inspect
from guided_service.ray.engines import Engines
from guided_service.ray.totals import total_of
from guided_service.stream_events import StreamEvent

__all__ = ["Models"]


class Models:
    """The engines of each model; the first model answers where a request names none."""

    def __init__(self, handles: Mapping[str, DeploymentHandle[Any]], config: ServerConfig) -> None:
        """Handles by the names of the models; a single one without a name has its own."""
        self._engines = {name: Engines(handle, config) for name, handle in handles.items()}

    async def watch(self, set_serving: Callable[[bool], Awaitable[None]]) -> None:
        """Look at all engines again and again, and say whether there are any.

        There are none before each model had some: who takes the place of another has to be whole.
        """
        serving = dict.fromkeys(self._engines, False)
        was_whole = False

        async def watch_one(name: str) -> None:
            async def set_one(is_serving: bool) -> None:
                nonlocal was_whole
                serving[name] = is_serving
                was_whole = was_whole or all(serving.values())
                await set_serving(was_whole and any(serving.values()))

            await self._engines[name].watch(set_one)

        async with asyncio.TaskGroup() as tasks:
            for name in self._engines:
                tasks.create_task(watch_one(name))

    def check_ready(self) -> None:
        """Raise ``ServiceUnavailableError`` unless some model has engines."""
        if not any(each.is_serving for each in self._engines.values()):
            raise ServiceUnavailableError("no engine is ready", hint="try again shortly")

    def check_prompt(self, request: GenerationRequest) -> None:
        """Raise ``LimitExceededError`` for a prompt that is too long whatever its tokens are."""
        self._of(request.model).check_prompt(request)

    def model(self, name: str = "") -> ModelInfo:
        """The model of this name, or the first; ``UnknownModelError`` where there is none."""
        model = self._of(name).model()
        if "" in self._engines:
            check_model(name, (model.name,))
            return model
        return replace(model, name=name or next(iter(self._engines)))

    def models(self) -> list[ModelInfo]:
        """All that requests may ask for, also those that have no engines for a while.

        ``ServiceUnavailableError`` where none has, or one had none yet.
        """
        self.check_ready()
        known = {name: each.known_model() for name, each in self._engines.items()}
        return [replace(model, name=name or model.name) for name, model in known.items()]

    def model_name(self, asked: str | None = None) -> str | None:
        """The name of the model that a request asks for by this one, or by none, once it is known.

        ``None`` asks for the only model that there is.
        """
        if "" in self._engines:
            name = self._engines[""].model_name()
            return None if asked and asked != name else name
        first = next(iter(self._engines))
        if asked is None:
            return first if len(self._engines) == 1 else None
        name = asked or first
        return name if name in self._engines else None

    def stats(self) -> EngineStats:
        """What all engines of now have done together, a second ago."""
        self.check_ready()
        told = [each.stats() for each in self._engines.values() if each.is_serving]
        total = total_of(told)
        assert total is not None, "some model has engines"
        return total

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        """Have one answer made for a client; cancelling the caller cancels it in its engine."""
        asked = replace(request, model="")
        return await self._of(request.model).generate(asked, received, client)

    def stream(
        self,
        request: GenerationRequest,
        received: float,
        client: str = "",
        *,
        is_watched: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Have one answer made and handed out as it grows; closing cancels it in its engine."""
        assert not is_watched, "only the playground watches, and it is not served here"
        return self._of(request.model).stream(replace(request, model=""), received, client)

    async def inspect(self, asked: Inspect) -> Finding:
        """Have a constraint worked on, by an engine that may have it."""
        self.model(asked.model)  # a single model without a name would take any
        return await self._of(asked.model).inspect(msgspec.structs.replace(asked, model=""))

    def _of(self, name: str) -> Engines:
        if "" in self._engines:
            return self._engines[""]
        check_model(name, self._engines)
        return self._engines[name or next(iter(self._engines))]
