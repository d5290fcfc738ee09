"""One replica of the deployment ``Ingress``: the servicers of ``guided serve``, behind Ray's proxy.

Admission, quotas, priorities, repeated requests and stored constraints belong to this process, as
in a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from ray.serve.handle import DeploymentHandle

from guided_service.authentication import Authenticates
from guided_service.config import ServerConfig
from guided_service.engine_supervisor import log_choice_of
from guided_service.health import HealthServicer
from guided_service.intake import Readers
from guided_service.logs import configure_logs
from guided_service.ray.calls import CallContext, Calls, Packed
from guided_service.ray.models import Models
from guided_service.request_log import RequestLog
from guided_service.request_watch import WatchesRequests
from guided_service.server import SERVICE_NAME, add_services, intakes
from guided_service.servicers import GenerationServicer
from guided_service.token_book import TokenBook
from guided_service.tracing_setup import open_tracer

__all__ = ["Ingress"]


class Ingress:
    """Answers calls of all services that the proxy takes (``proxied``)."""

    def __init__(
        self, engines: Mapping[str, DeploymentHandle[Any]], settings: Mapping[str, object]
    ) -> None:
        """``engines`` maps the name of each model to its engines."""
        config = ServerConfig.model_validate(settings)
        configure_logs(log_choice_of(config))
        self._models = Models(engines, config)
        self._health = HealthServicer(SERVICE_NAME, config.max_health_watchers)
        self._calls = _calls(self._models, self._health, config)
        self._patience = config.silence_seconds
        self._serving = asyncio.Event()
        """Set once an engine has been ready."""
        self._watching: asyncio.Task[None] | None = None

    async def check_health(self) -> None:
        """Begin to watch the engines, or raise the error that ended watching.

        Ray passes no call before the first return, which waits for an engine for a while, so that
        an ingress that replaces another refuses no calls.
        """
        if self._watching is None:
            watch = self._models.watch(self._set_serving)
            self._watching = asyncio.create_task(watch)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._serving.wait()
        if self._watching.done():
            self._watching.result()

    async def unary(self, message: bytes, grpc_context: Any) -> Packed:
        """Answer a call with one response."""
        return Packed(await self._calls.answer(message, CallContext(grpc_context)))

    async def stream(self, message: bytes, grpc_context: Any) -> AsyncIterator[Packed]:
        """Answer a call with a stream of responses."""
        async for part in self._calls.stream(message, CallContext(grpc_context)):
            yield Packed(part)

    async def _set_serving(self, is_serving: bool) -> None:
        await self._health.set_serving(is_serving)
        if is_serving:
            self._serving.set()


def _calls(models: Models, health: HealthServicer, config: ServerConfig) -> Calls:
    """Build the methods of all services, watched and guarded as in a server.

    The proxy bounds connections and slow senders: messages are whole here.
    """
    readers = Readers()
    servicer = GenerationServicer(models, config, readers)
    log = RequestLog() if config.log_requests else None
    tokens = None if config.tokens is None else TokenBook(config.tokens)
    open_to_all = frozenset({HEALTH_NAME})
    pause = config.retry_after_seconds
    calls = Calls(
        (
            WatchesRequests(SERVICE_NAME, open_tracer(models.model_name), log),
            *(() if tokens is None else (Authenticates(tokens, open_to_all, pause),)),
            *intakes(servicer.door, readers, config),
        )
    )
    server: Any = calls  # as far as generated code needs
    add_services(server, models, servicer, health, config)
    return calls
