"""One replica of the deployment ``Ingress``: the two faces of ``guided serve``, behind Ray's proxy.

Admission, quotas, priorities, repeated requests and stored constraints belong to this process, as
in a server, for calls over gRPC and HTTP together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from guided_service.authentication import Authenticates
from guided_service.config import ServerConfig
from guided_service.engine_supervisor import log_choice_of
from guided_service.health import HealthServicer
from guided_service.http.app import application
from guided_service.http.call import Face
from guided_service.intake import Readers
from guided_service.logs import configure_logs
from guided_service.ray.calls import CallContext, Calls, Packed
from guided_service.ray.exposition import METRICS_PATH, Exposition, ReplicasCollector
from guided_service.ray.models import Models
from guided_service.ray.proxied_http import ProxiedHttp
from guided_service.request_log import RequestLog
from guided_service.request_watch import WatchesRequests
from guided_service.server import SERVICE_NAME, add_services, intakes
from guided_service.servicers import GenerationServicer
from guided_service.token_book import TokenBook
from guided_service.tracing_setup import open_tracer

__all__ = ["Ingress"]


class Ingress:
    """Answers calls that the proxies take: over gRPC (``proxied``) and HTTP (``proxied_http``)."""

    def __init__(
        self, engines: Mapping[str, DeploymentHandle[Any]], settings: Mapping[str, object]
    ) -> None:
        """``engines`` maps the name of each model to its engines."""
        # The playground shows each step of an engine, which engines here do not report.
        config = ServerConfig.model_validate({**settings, "playground": False})
        configure_logs(log_choice_of(config))
        self._models = Models(engines, config)
        self._health = HealthServicer(SERVICE_NAME, config.max_health_watchers)
        readers = Readers()
        servicer = GenerationServicer(self._models, config, readers)
        log = RequestLog() if config.log_requests else None
        watch = WatchesRequests(SERVICE_NAME, open_tracer(self._models.model_name), log)
        book = None if config.tokens is None else TokenBook(config.tokens)
        face = Face(self._models, servicer.door, readers, watch, book, config)
        self._calls = _calls(face, servicer, self._health)
        self._app = _app(face, self._models, self._health)
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

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application that answers calls over HTTP."""
        return self._app

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


def _calls(face: Face, servicer: GenerationServicer, health: HealthServicer) -> Calls:
    """Build the methods of all services, watched and guarded as in a server.

    The proxy bounds connections and slow senders: messages are whole here.
    """
    config, book = face.config, face.book
    open_to_all = frozenset({HEALTH_NAME})
    pause = config.retry_after_seconds
    calls = Calls(
        (
            face.watch,
            *(() if book is None else (Authenticates(book, open_to_all, pause),)),
            *intakes(face.door, face.readers, config),
        )
    )
    server: Any = calls  # as far as generated code needs
    add_services(server, face.engine, servicer, health, config)
    return calls


def _app(face: Face, models: Models, health: HealthServicer) -> ASGIApp:
    """Build the application of all paths, with the metrics of all engines."""
    replica = serve.get_replica_context().replica_id.unique_id
    collector = ReplicasCollector(models, face.door.admission, replica)
    metrics = {METRICS_PATH: Exposition(face, collector)}
    return ProxiedHttp(application(face, health, metrics))
