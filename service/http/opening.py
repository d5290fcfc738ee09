"""Puts together the parts of the HTTP service and opens its port."""

from __future__ import annotations

from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.health import HealthServicer
from guided_service.http.app import application
from guided_service.http.body import Bodies
from guided_service.http.call import Face
from guided_service.http.web_server import WebServer
from guided_service.intake import Readers
from guided_service.request_watch import WatchesRequests
from guided_service.servicers import Engine
from guided_service.token_book import TokenBook

__all__ = ["open_http"]


def open_http(
    engine: Engine,
    door: Door,
    readers: Readers,
    watch: WatchesRequests,
    book: TokenBook | None,
    health: HealthServicer,
    config: ServerConfig,
) -> WebServer:
    """Return a server of OpenAI's API, which takes calls once it is started.

    Raises ``ServiceError`` with the reason if it cannot listen.
    """
    face = Face(engine, door, readers, watch, book, config, Bodies(config))
    return WebServer(application(face, health.is_serving), config)
