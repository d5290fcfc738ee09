"""Keeps room for new connections, even if idle ones are held without end.

The transport bounds the number of connections and closes any above the bound, whoever owns it; it
knows neither who has most nor which never made a call. So when few places are left, the connections
worth least are ended (``connection_worth``), about a second after they came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final
from urllib.parse import unquote

import grpc
import grpc.aio
import structlog
from typing_extensions import override

from guided_service.accepted_sockets import descriptors, hang_up, peers
from guided_service.call_notes import CallNotes, Peer
from guided_service.connection_worth import address_of, too_many
from guided_service.handlers import kind_of
from guided_service.status import Context

__all__ = ["ConnectionRoom", "peer_of"]

_LOOK_SECONDS: Final = 0.5
"""Interval between two checks. A new connection has at least this long to make its first call."""

_log = structlog.get_logger()


class ConnectionRoom(grpc.aio.ServerInterceptor):
    """Notes which connections have sent a call's message, and ends those that have to go."""

    def __init__(self, most: int) -> None:
        """``most`` is the transport's own bound."""
        self._most = most
        self._notes = CallNotes()
        self._made: dict[Peer, float] = {}
        """When each open connection was first seen, while there are many."""

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        make, answer = kind_of(handler)
        return make(self._noted(answer), handler.request_deserializer, handler.response_serializer)

    def _noted(self, answer: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def answer_and_note(message: Any, context: Context) -> Any:
            peer = peer_of(context.peer())
            with nullcontext() if peer is None else self._notes.calling(peer):
                answering = answer(message, context)
                del message  # its reader releases it
                return await answering

        return answer_and_note

    async def keep(self, port: int) -> None:
        """Check the connections to a port periodically, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self._may_be_many():
                self._made = {}
                continue
            try:
                await self._make_room(port)
            except (OSError, RuntimeError) as error:  # no descriptor, or no thread, at the moment
                _log.error("no room made for connections", error=str(error))

    def _may_be_many(self) -> bool:
        """Whether to look closer: half of the descriptors or more may be connections, or many notes
        may be of connections that are gone."""
        few = self._most // 2
        return len(descriptors()) > few or len(self._notes) > 2 * self._most

    async def _make_room(self, port: int) -> None:
        seen, now = await asyncio.to_thread(peers, port), time.monotonic()
        self._made = {peer: self._made.get(peer, now) for peer in seen}
        self._notes.forget_all_but(seen)
        # A connection that has just come is about to make a call.
        chosen = [
            peer
            for peer in too_many(
                (self._notes.of(peer, peer, made) for peer, made in self._made.items()), self._most
            )
            if self._made[peer] < now
        ]
        if chosen:
            await asyncio.to_thread(hang_up, port, frozenset(chosen))
            _log.info("idle connections ended", connections=len(chosen), open=len(seen))


def peer_of(said: str) -> Peer | None:
    """Parse the remote end as gRPC names it: ``ipv6:%5B::1%5D:5555``."""
    kind, _, place = unquote(said).partition(":")
    host, _, port = place.rpartition(":")
    return (address_of(host.strip("[]")), int(port)) if kind in ("ipv4", "ipv6") else None
