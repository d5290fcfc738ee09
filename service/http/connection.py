"""Bounds the time of connections over HTTP/1.1, and identifies their callers.

uvicorn bounds the time between two calls. This module also bounds the time until a call's header
has come, the bytes of a call on the wire and the age of a connection, and can cut one whose caller
reads nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from typing import Any, Final, cast
from uuid import uuid4

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from guided_service.config import ServerConfig
from guided_service.http.carrier import carried_by

__all__ = ["connection_kind"]

_PIECE: Final = 8 * 2**10
"""Bytes that are parsed before others get their turn: 7 ms, where each byte is sent as a chunk."""


def connection_kind(config: ServerConfig) -> type[H11Protocol]:
    """Return the protocol class of connections with a server's bounds, as uvicorn takes it."""

    class BoundedConnection(_Connection):
        stall_seconds = config.stall_seconds
        age_seconds = config.connection_age_seconds
        most_bytes = 2 * config.max_message_bytes

    return BoundedConnection


class _Connection(H11Protocol):
    stall_seconds: float
    """Time for a call's header to come, from the connection or from its first byte."""
    age_seconds: float
    """Age after which it is closed once its current call ends."""
    most_bytes: int
    """Bytes of a call on the wire, the headers of its chunks included."""

    _late: asyncio.TimerHandle | None = None
    _made = 0.0
    _unread = b""
    """What has come and was not parsed yet."""
    _turn: asyncio.Handle | None = None
    """The turn in which more of it will be."""
    _taken = 0
    """Bytes of the current call that were parsed."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._made = self.loop.time()
        self.app_state = carried_by(self, self.app_state)
        self._await_header()

    @override
    def data_received(self, data: bytes) -> None:
        self._unread += data
        if self._turn is None:
            self._parse_piece()
        else:  # uvicorn has resumed reading
            self.transport.pause_reading()

    def _parse_piece(self) -> None:
        """Parse some of what has come, and the rest in later turns; read no more until then."""
        self._turn = None
        if self.transport.is_closing():
            return
        piece, self._unread = self._unread[:_PIECE], self._unread[_PIECE:]
        try:
            self._parse(piece)
        except Exception:
            # In a turn of its own, asyncio would only log it, and leave the connection paused.
            self.transport.abort()
            raise
        if self._unread:
            self.transport.pause_reading()
            self._turn = self.loop.call_soon(self._parse_piece)
        elif not self.flow.read_paused:
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        seen = self.cycle
        super().data_received(data)
        self._taken += len(data)
        if self.cycle is not seen:
            self._taken = len(data)
            self._stop_waiting()
        elif self._taken > self.most_bytes:
            self.transport.abort()
        elif self._late is None and self._is_idle():
            # These are the first bytes of another header, or the rest of a call that was answered
            # before all of it came: its caller may not have seen that yet.
            self._await_header()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._turn is not None:
            self._turn.cancel()
        super().connection_lost(exc)

    @override
    def on_response_complete(self) -> None:
        self._taken = 0
        if self.loop.time() - self._made > self.age_seconds and not self.transport.is_closing():
            self.transport.close()
        super().on_response_complete()

    def identity(self) -> str:
        """Return the subject of the certificate shown, or else the connection."""
        found = cast("ssl.SSLObject | None", self.transport.get_extra_info("ssl_object"))
        shown = None if found is None else found.getpeercert()
        if shown:
            return "certificate " + ", ".join(sorted(_names(shown)))
        return f"connection {self.client}"

    def call_id(self) -> str:
        """Return a new id, as callers choose none."""
        return uuid4().hex

    def cut(self) -> None:
        """End the connection at once, and drop what its caller has not read."""
        # Otherwise the system would keep trying to deliver it.
        linger = struct.pack("ii", 1, 0)
        taken = self.transport.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_header(self) -> None:
        self._late = self.loop.call_later(self.stall_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _names(certificate: Any) -> list[str]:
    """Return the subject's alternative names, or its common name if it has none."""
    names = [value for _, value in certificate.get("subjectAltName", ())]
    common = [
        value
        for pairs in certificate.get("subject", ())
        for kind, value in pairs
        if kind == "commonName"
    ]
    return names or common or ["without a name"]
