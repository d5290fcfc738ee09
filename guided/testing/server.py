"""A server without a model, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self

from guided.errors import RequestError
from guided.spec import GenerationRequest
from guided.testing.walking_model import Reply, WalkingModel
from guided_service.config import ServerConfig
from guided_service.first_message import AwaitsMessages
from guided_service.health import HealthServicer
from guided_service.intake import Readers
from guided_service.listening import bind
from guided_service.request_watch import WatchesRequests
from guided_service.server import SERVICE_NAME, intakes, wired
from guided_service.servicers import GenerationServicer

__all__ = ["Server"]

_CONFIG: Final = ServerConfig.model_construct(
    host="127.0.0.1", port=0, http_host="127.0.0.1", http_port=0
)
"""The defaults, whatever the environment says: a test must not depend on it."""


class Server:
    """A gRPC server, and OpenAI's API if requested; use it in ``with``.

    Replies answer requests in order of arrival; a request for several answers (``n``) takes one
    reply each. A model, a dict or a list is sent as its JSON. A reply that does not fit the
    constraint of its request is a ``RequestError`` for the caller; an error among the replies is
    raised there as if the server had met it.
    """

    def __init__(self, *replies: Reply, http: bool = False) -> None:
        self._model = WalkingModel(replies)
        self._has_http = http
        self._thread = threading.Thread(target=self._run, name="guided.testing", daemon=True)
        self._is_started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._addresses: tuple[str, str] | None = None
        self._fault: BaseException | None = None

    @property
    def address(self) -> str:
        """Its address, for ``guided.Client``."""
        return self._listening()[0]

    @property
    def http_url(self) -> str:
        """The base of OpenAI's API, with ``http=True``: ``http://127.0.0.1:PORT/v1``."""
        if not self._has_http:
            raise RequestError("the server does not serve HTTP", hint="make it with http=True")
        return self._listening()[1]

    @property
    def requests(self) -> Sequence[GenerationRequest]:
        """The requests in order of arrival, without refused ones."""
        return tuple(self._model.requests)

    def reply(self, *replies: Reply) -> None:
        """Add replies for further requests; raises ``RequestError`` for what is none."""
        self._model.add(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_started.wait()
        if self._fault is not None:
            raise self._fault
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None, "a server that was not started"
        assert self._stop is not None, "a server that was not started"
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _listening(self) -> tuple[str, str]:
        if self._addresses is None:
            raise RequestError("the server is not started", hint="use it in a with statement")
        return self._addresses

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as fault:
            self._fault = fault
        finally:
            self._is_started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with _serving(self._model, has_http=self._has_http) as self._addresses:
            self._is_started.set()
            await self._stop.wait()


@asynccontextmanager
async def _serving(model: WalkingModel, *, has_http: bool) -> AsyncGenerator[tuple[str, str], None]:
    """Put together and run the parts of a server, like ``guided serve``; yields their addresses."""
    health = HealthServicer(SERVICE_NAME, _CONFIG.max_health_watchers)
    readers = Readers()
    servicer = GenerationServicer(model, _CONFIG, readers)
    watch = WatchesRequests(SERVICE_NAME, None, None)
    server = wired(
        model,
        servicer,
        health,
        _CONFIG,
        watch,
        AwaitsMessages(servicer.door, _CONFIG),
        *intakes(servicer.door, readers, _CONFIG),
    )
    port = bind(server, _CONFIG)
    web = None
    if has_http:
        from guided_service.http.app import open_http

        web = open_http(model, servicer.door, readers, watch, None, health, _CONFIG)
    try:
        await server.start()
        await health.set_serving(True)
        if web is not None:
            await web.start()
        yield f"127.0.0.1:{port}", "" if web is None else f"{web.url}/v1"
    finally:
        if web is not None:
            await web.stop(0)
        await server.stop(0)
        readers.close()
