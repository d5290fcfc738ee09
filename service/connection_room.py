"""Keeps room for new connections, even if idle ones are held without end.

The transport bounds the number of connections and closes any above the bound, whoever owns it; it
knows neither who has most nor which never made a call. So when few places are left, the connections
worth least are ended (``connection_worth``), about a second after they came. Their sockets, which
the transport does not expose, are found among the descriptors of this process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import structlog
from typing_extensions import override

from guided_service.connection_worth import CallNotes, Peer, address_of, too_many
from guided_service.handlers import Wraps, kind_of
from guided_service.status import Context

__all__ = ["ConnectionRoom", "peer_of"]

_LOOK_SECONDS: Final = 0.5
"""Interval between two checks. A new connection has at least this long to make its first call."""

_DESCRIPTORS: Final = Path("/proc/self/fd")
"""If this folder does not exist, no socket is found."""

_log = structlog.get_logger()


class ConnectionRoom(Wraps):
    """Notes which connections have sent a call's message, and ends those that have to go."""

    def __init__(self, most: int) -> None:
        """``most`` is the transport's own bound."""
        self._most = most
        self._notes = CallNotes()
        self._made: dict[Peer, float] = {}
        """When each open connection was first seen, while there are many."""

    @override
    def wrapped(self, handler: Any, path: str) -> Any:
        if handler.request_streaming:
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
        return len(_descriptors()) > few or len(self._notes) > 2 * self._most

    async def _make_room(self, port: int) -> None:
        seen, now = await asyncio.to_thread(_peers, port), time.monotonic()
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
            await asyncio.to_thread(_hang_up, port, frozenset(chosen))
            _log.info("idle connections ended", connections=len(chosen), open=len(seen))


def peer_of(said: str) -> Peer | None:
    """Parse the remote end as gRPC names it: ``ipv6:%5B::1%5D:5555``."""
    kind, _, place = unquote(said).partition(":")
    host, _, port = place.rpartition(":")
    return (address_of(host.strip("[]")), int(port)) if kind in ("ipv4", "ipv6") else None


def _descriptors() -> list[int]:
    """Return the descriptors that this process has open."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208 - names alone
    return []


def _peers(port: int) -> list[Peer]:
    """Return the remote ends of all connections accepted on a port."""
    return [peer for peer, _ in _accepted(port)]


def _hang_up(port: int, chosen: Container[Peer]) -> None:
    """Shut down the chosen peers' connections; the transport sees them end and forgets them."""
    for peer, opened in _accepted(port):
        if peer in chosen:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


def _accepted(port: int) -> Iterator[tuple[Peer, socket.socket]]:
    for number in _descriptors():
        # Skips what is no network socket, closed by now, or not connected (a listening socket).
        with suppress(OSError), _opened(number) as opened:
            if opened.family in (socket.AF_INET, socket.AF_INET6):
                host, its_port, *_ = opened.getpeername()
                if opened.getsockname()[1] == port:
                    yield (address_of(host), its_port), opened


def _opened(number: int) -> socket.socket:
    """Return the socket of a descriptor; raises OSError if it is none."""
    # Through a duplicate: the descriptor may be closed meanwhile and its number reused for another
    # file.
    ours = os.dup(number)
    try:
        return socket.socket(fileno=ours)
    except OSError:
        os.close(ours)
        raise
