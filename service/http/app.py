"""The paths of OpenAI's API over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from guided_service.http.call import Answers, Face, Response, check_model, fail
from guided_service.http.chat_request import read_chat
from guided_service.http.completions import read_completion
from guided_service.http.errors import JsonObject, RefusedCallError
from guided_service.http.playground import playground_gets, playground_posts
from guided_service.http.response_request import read_response
from guided_service.listening import has_playground

__all__ = ["IsServing", "application"]

IsServing = Callable[[], bool]
"""Returns whether the health service reports that requests are taken."""

_PATHS: Final = "docs/openai.md lists the paths"


def application(face: Face, is_serving: IsServing) -> ASGIApp:
    """Build the application of all paths; an unknown path gets an error of the usual form."""
    facts = _Facts(face, int(time.time()))
    gets: dict[str, ASGIApp] = {
        "/health": _Health(face, is_serving),
        "/v1/models": _Told(face, facts.models),
        "/v1/models/{model:path}": _Told(face, facts.model),
    }
    posts: dict[str, ASGIApp] = {
        "/v1/chat/completions": Answers(face, "chat.completions", "chatcmpl-", read_chat),
        "/v1/completions": Answers(face, "completions", "cmpl-", read_completion),
        "/v1/responses": Answers(face, "responses", "resp_", read_response),
    }
    if has_playground(face.config):
        gets |= playground_gets(face)
        posts |= playground_posts(face)
    routes = [
        *(Route(path, _OneMethod(("GET", "HEAD"), app, face)) for path, app in gets.items()),
        *(Route(path, _OneMethod(("POST",), app, face)) for path, app in posts.items()),
    ]
    return Router(routes, redirect_slashes=False, default=_NoPath(face))


class _OneMethod:
    """A path that takes calls of one method."""

    def __init__(self, methods: tuple[str, ...], app: ASGIApp, face: Face) -> None:
        self._methods = methods
        self._app = app
        self._face = face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in self._methods:
            return await self._app(scope, receive, send)
        error = RefusedCallError(
            f"{scope['path'][:200]} takes {self._methods[0]}, not {scope['method'][:20]}",
            status=405,
            hint=_PATHS,
            headers=(("allow", ", ".join(self._methods)),),
        )
        await fail(_unlogged(self._face, scope, send), error, self._face)


class _NoPath:
    """Answers calls of every other path."""

    def __init__(self, face: Face) -> None:
        self._face = face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        error = RefusedCallError(
            f"there is no path {scope['path'][:200]!r}", status=404, hint=_PATHS
        )
        await fail(_unlogged(self._face, scope, send), error, self._face)


def _unlogged(face: Face, scope: Scope, send: Send) -> Response:
    """Return the response to a call that is not logged, as it asks nothing of the model."""
    return Response(scope, send, uuid4().hex, face.config.stall_seconds)


class _Health:
    """Reports to everybody, load balancers above all, whether requests are taken."""

    def __init__(self, face: Face, is_serving: IsServing) -> None:
        self._face = face
        self._is_serving = is_serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        is_serving = self._is_serving()
        response = _unlogged(self._face, scope, send)
        said: JsonObject = {"status": "SERVING" if is_serving else "NOT_SERVING"}
        await response.whole(said, 200 if is_serving else 503)


class _Told:
    """A path that returns facts to known callers."""

    def __init__(self, face: Face, tell: Callable[[Scope], JsonObject]) -> None:
        self._face = face
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        response = _unlogged(self._face, scope, send)
        try:
            self._face.caller(scope, Headers(scope=scope))
            await response.whole(self._tell(scope))
        except Exception as error:
            await fail(response, error, self._face)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts returned about the model."""

    face: Face
    begun: int
    """When the server began, in seconds since 1970."""

    def models(self, _: Scope) -> JsonObject:
        model = self.face.engine.model()
        adapters = [self._told(name, parent=model.name) for name in model.adapters]
        return {"object": "list", "data": [self._told(model.name), *adapters]}

    def model(self, scope: Scope) -> JsonObject:
        asked, model = scope["path_params"]["model"], self.face.engine.model()
        check_model(asked, model, self.face.config)
        is_adapter = asked in model.adapters
        return self._told(asked, parent=model.name) if is_adapter else self._told(model.name)

    def _told(self, name: str, parent: str | None = None) -> JsonObject:
        """``parent`` is the model that an adapter is added to, named as vLLM does."""
        model = self.face.engine.model()
        of_adapter: JsonObject = {} if parent is None else {"parent": parent}
        return of_adapter | {
            "id": name,
            "object": "model",
            "created": self.begun,
            "owned_by": "guided",
            "max_model_len": model.context_window,
        }
