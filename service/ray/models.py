"""Presents several models as one to the servicers: each request goes to its model's engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from ray.serve.handle import DeploymentHandle

from guided.errors import ServiceUnavailableError
from guided.spec import GenerationRequest, GenerationResult, PromptTokens, TokenId
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
    """The engines of each model; the first model answers requests that name none."""

    def __init__(self, handles: Mapping[str, DeploymentHandle[Any]], config: ServerConfig) -> None:
        """``handles`` are by model name; a single model with an empty name uses its own name."""
        self._engines = {name: Engines(handle, config) for name, handle in handles.items()}

    async def watch(self, set_serving: Callable[[bool], Awaitable[None]]) -> None:
        """Check all engines periodically, and report whether any is ready.

        Reports none until each model has had an engine: a replica that replaces another must be
        complete.
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
        if not any(each.is_serving for each in self._engines.values()):
            raise ServiceUnavailableError("no engine is ready", hint="try again shortly")

    def check_prompt(self, request: GenerationRequest) -> None:
        self._of(request.model).check_prompt(request)

    def model(self, name: str = "") -> ModelInfo:
        model = self._of(name).model()
        if "" in self._engines:
            check_model(name, (model.name,))
            return model
        return replace(model, name=name or next(iter(self._engines)))

    def models(self) -> list[ModelInfo]:
        """Return all models, including those without engines for a while.

        Raises ``ServiceUnavailableError`` if no model has engines, or one never had any.
        """
        self.check_ready()
        known = {name: each.known_model() for name, each in self._engines.items()}
        return [replace(model, name=name or model.name) for name, model in known.items()]

    def model_name(self, asked: str | None = None) -> str | None:
        """Return the known name of the model that a request for ``asked`` or for none gets.

        ``None`` means the only model.
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
        """Return the summed statistics of all current engines, about a second old."""
        self.check_ready()
        told = [each.stats() for each in self._engines.values() if each.is_serving]
        total = total_of(told)
        assert total is not None, "some model has engines"
        return total

    def reports(self) -> dict[str, Mapping[str, EngineStats | None]]:
        """Return the last statistics by model and replica; ``None`` while it has no engine."""
        reports = {name: each.reports() for name, each in self._engines.items()}
        if "" in reports:
            return {self._engines[""].model_name() or "": reports[""]}
        return reports

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
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
        assert not is_watched, "only the playground watches, and it is not served here"
        return self._of(request.model).stream(replace(request, model=""), received, client)

    async def inspect(self, asked: Inspect) -> Finding:
        self.model(asked.model)  # refuses another name for a single model
        return await self._of(asked.model).inspect(msgspec.structs.replace(asked, model=""))

    async def tokenize(
        self, request: GenerationRequest, received: float, *, texts: bool = False
    ) -> PromptTokens:
        asked = replace(request, model="")
        return await self._of(request.model).tokenize(asked, received, texts=texts)

    async def detokenize(self, tokens: tuple[TokenId, ...], model: str = "") -> bytes:
        self.model(model)  # refuses another name for a single model
        return await self._of(model).detokenize(tokens)

    def _of(self, name: str) -> Engines:
        if "" in self._engines:
            return self._engines[""]
        check_model(name, self._engines)
        return self._engines[name or next(iter(self._engines))]
