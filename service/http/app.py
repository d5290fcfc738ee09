"""The paths of OpenAI's and Anthropic's APIs over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.datastructures import Headers
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.health import HealthServicer
from guided_service.http.anthropic_request import read_message
from guided_service.http.call import Answers, Face, Response, fail
from guided_service.http.carrier import carrier_of
from guided_service.http.chat_request import read_chat
from guided_service.http.completions import read_completion
from guided_service.http.cors import with_cors
from guided_service.http.errors import JsonObject, RefusedCallError
from guided_service.http.models import ModelFacts
from guided_service.http.playground import playground_gets, playground_posts
from guided_service.http.response_request import read_response
from guided_service.http.token_calls import CountTokens, Detokenize, Tokenize
from guided_service.http.web_server import WebServer
from guided_service.intake import Readers
from guided_service.listening import has_playground
from guided_service.request_watch import WatchesRequests
from guided_service.servicers import Engine
from guided_service.token_book import TokenBook

__all__ = ["application", "open_http"]

_PATHS: Final = "docs/openai.md lists the paths"


def open_http(
    engine: Engine,
    door: Door,
    readers: Readers,
    watch: WatchesRequests,
    book: TokenBook | None,
    health: HealthServicer,
    config: ServerConfig,
) -> WebServer:
    """Return a server of both APIs, which takes calls once it is started.

    Raises ``ServiceError`` with the reason if it cannot listen.
    """
    face = Face(engine, door, readers, watch, book, config)
    return WebServer(application(face, health, {}), config)


def application(face: Face, health: HealthServicer, further_gets: Mapping[str, ASGIApp]) -> ASGIApp:
    """Build the application of all paths; an unknown path gets an error of the usual form.

    ``further_gets`` are applications by path. Calls come with a carrier (``carried_by``).
    """
    facts = ModelFacts(face, int(time.time()))
    gets: dict[str, ASGIApp] = {
        "/health": partial(_tell_health, face, health),
        "/v1/models": partial(_tell, face, facts.models),
        "/v1/models/{model:path}": partial(_tell, face, facts.model),
        **further_gets,
    }
    posts: dict[str, ASGIApp] = {
        "/v1/chat/completions": Answers(face, "chat.completions", "chatcmpl-", read_chat),
        "/v1/completions": Answers(face, "completions", "cmpl-", read_completion),
        "/v1/responses": Answers(face, "responses", "resp_", read_response),
        "/v1/messages": Answers(face, "messages", "msg_", read_message),
        "/v1/messages/count_tokens": CountTokens(face),
        "/tokenize": Tokenize(face),
        "/detokenize": Detokenize(face),
    }
    if has_playground(face.config):
        gets |= playground_gets(face)
        posts |= playground_posts(face)
    routes = [
        *(Route(path, _OneMethod(("GET", "HEAD"), app, face)) for path, app in gets.items()),
        *(Route(path, _OneMethod(("POST",), app, face)) for path, app in posts.items()),
    ]
    paths = frozenset(gets | posts)
    router = Router(routes, redirect_slashes=False, default=partial(_refuse_path, face, paths))
    return with_cors(router, face.config.http_cors_origins)


@dataclass(frozen=True, slots=True)
class _OneMethod:
    """A path that takes calls of one method."""

    methods: tuple[str, ...]
    app: ASGIApp
    face: Face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in self.methods:
            return await self.app(scope, receive, send)
        error = RefusedCallError(
            f"{scope['path'][:200]} takes {self.methods[0]}, not {scope['method'][:20]}",
            status=405,
            hint=_PATHS,
            headers=(("allow", ", ".join(self.methods)),),
        )
        await fail(_unlogged(self.face, scope, send), error, self.face)


async def _refuse_path(
    face: Face, paths: frozenset[str], scope: Scope, _: Receive, send: Send
) -> None:
    """Answer a call of any other path than ``paths``."""
    is_base_short = f"/v1{scope['path']}" in paths or scope["path"].startswith("/models/")
    hint = "the base URL that a client is given ends in /v1" if is_base_short else _PATHS
    if scope["path"].startswith("/v1/v1/"):
        hint = "the base URL that a client of Anthropic's API is given has no /v1"
    error = RefusedCallError(f"there is no path {scope['path'][:200]!r}", status=404, hint=hint)
    await fail(_unlogged(face, scope, send), error, face)


def _unlogged(face: Face, scope: Scope, send: Send) -> Response:
    """Return the response to a call that is not logged, as it asks nothing of the model."""
    return Response(scope, send, carrier_of(scope).call_id(), face.config.stall_seconds)


async def _tell_health(
    face: Face, health: HealthServicer, scope: Scope, _: Receive, send: Send
) -> None:
    """Report to everybody, load balancers above all, whether requests are taken."""
    is_serving = health.is_serving()
    said: JsonObject = {"status": "SERVING" if is_serving else "NOT_SERVING"}
    await _unlogged(face, scope, send).whole(said, 200 if is_serving else 503)


async def _tell(
    face: Face, facts: Callable[[Scope], JsonObject], scope: Scope, _: Receive, send: Send
) -> None:
    """Return facts to a known caller."""
    response = _unlogged(face, scope, send)
    try:
        face.caller(scope, Headers(scope=scope))
        await response.whole(facts(scope))
    except Exception as error:
        await fail(response, error, face)
