"""Notes the calls of an application by their connection."""

from __future__ import annotations

from contextlib import ExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from guided_service.connection_worth import CallNotes, address_of

__all__ = ["NotedCalls"]


class NotedCalls:
    """The application, noting which peers make calls and which wait for answers to whole calls.

    A peer that has sent half a call keeps its connection no better than a silent one.
    """

    def __init__(self, app: ASGIApp, notes: CallNotes) -> None:
        self._app = app
        self._notes = notes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["client"] is None:  # the peer is gone
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
