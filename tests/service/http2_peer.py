"""A peer that speaks HTTP/2 frame by frame, for what no gRPC library lets a caller do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

__all__ = ["Peer", "connected", "framed"]

_GRPC: Final = (("te", "trailers"), ("content-type", "application/grpc"))


def framed(message: bytes) -> bytes:
    """A message as gRPC sends it: uncompressed, with its length in front."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Peer:
    """One connection, which sends and reads only on request."""

    def __init__(self, address: str, window: int | None = None) -> None:
        """``window`` is the number of bytes of a stream that the server may send unread."""
        host, _, port = address.rpartition(":")
        self._authority = address
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._http.initiate_connection()
        if window is not None:
            self._http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()

    def call(self, path: str, message: bytes | None = None) -> int:
        """Open a call, and send its message if one is given; returns its stream."""
        stream = self._http.get_next_available_stream_id()
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", self._authority),
            *_GRPC,
        )
        self._http.send_headers(stream, headers)
        if message is not None:
            self._http.send_data(stream, framed(message), end_stream=True)
        return stream

    def reset(self, stream: int) -> None:
        """Reset a call."""
        self._http.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)

    def flush(self) -> None:
        """Send the pending bytes."""
        self._socket.sendall(self._http.data_to_send())

    def read(self) -> list[h2.events.Event]:
        """Read the events so far; raises ``ConnectionError`` once the server has hung up."""
        data = self._socket.recv(2**16)
        if not data:
            raise ConnectionError("the server has hung up")
        return list(self._http.receive_data(data))

    def read_what_came(self) -> list[h2.events.Event]:
        """Read without waiting; necessary replies are sent with the next ``flush``."""
        came: list[h2.events.Event] = []
        while select([self._socket], [], [], 0)[0]:
            came += self.read()
        return came

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    @property
    def most_streams(self) -> int:
        """How many concurrent calls the server accepts."""
        return self._http.remote_settings.max_concurrent_streams


@contextmanager
def connected(address: str, window: int | None = None) -> Iterator[Peer]:
    """A peer for the block."""
    peer = Peer(address, window)
    try:
        yield peer
    finally:
        peer.close()
