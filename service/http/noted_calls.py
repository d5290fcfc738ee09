"""An application whose calls are noted by the connection that they come over."""

from __future__ import annotations

from contextlib import ExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guided_service.call_notes import CallNotes
from guided_service.connection_worth import address_of

__all__ = ["NotedCalls"]


class NotedCalls:
    """The application, which notes who asks, and who waits for an answer to a whole call.

    Who has sent half a call holds its connection no better than one who is silent.
    """

    def __init__(self, app: ASGIApp, notes: CallNotes) -> None:
        self._app = app
        self._notes = notes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["client"] is None:  # it has gone by now
            return await self._app(scope, receive, send)
        host, port = scope["client"]
        peer = address_of(host), port
        self._notes.asks(peer)
        with ExitStack() as running:
            is_whole = False

            async def receive_and_note() -> Message:
                nonlocal is_whole
                message = await receive()
                if not is_whole and not message.get("more_body", False):
                    is_whole = True
                    running.enter_context(self._notes.calling(peer))
                return message

            await self._app(scope, receive_and_note, send)
