"""Takes calls over HTTP that Ray's proxy passes on, with their connection as far as it tells.

The proxy gives each call an id, in the headers of the call and of its response, unless the caller
has. So the log has the call under that id, and the response gets no other one from us.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guided_service.http.carrier import carried_by
from guided_service.request_ids import name_of

__all__ = ["ProxiedHttp"]

_ID: Final = "x-request-id"


class ProxiedHttp:
    """An application whose calls come through Ray's proxy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # the proxy passes these on too, and nothing takes them
            return await send({"type": "websocket.close"})
        if scope["type"] == "http":
            scope = {**scope, "state": carried_by(_ProxiedCall(scope), scope.get("state", {}))}
            send = partial(_send_unnamed, send)
        await self._app(scope, receive, send)


class _ProxiedCall:
    """A call whose connection ends at the proxy."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def identity(self) -> str:
        """Return the caller's connection to the proxy; its certificate is not passed on."""
        host, port = self._scope["client"] or ("unknown", 0)
        return f"connection {host}:{port}"

    def call_id(self) -> str:
        """Return the id that the proxy or the caller chose, or a new one if it is invalid."""
        return name_of(Headers(scope=self._scope).get(_ID, ""))

    def cut(self) -> None:
        """Do nothing: the proxy takes whatever is sent, however slowly its caller reads."""


async def _send_unnamed(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        headers = [each for each in message["headers"] if each[0] != _ID.encode()]
        message = {**message, "headers": headers}
    await send(message)
