"""Bounds on calls over HTTP: sizes, silence, connections, readers that do not read."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from guided.client import Client
from tests.service.http_server import (
    HttpServer,
    chat,
    completion,
    connected,
    error_of,
    read_to_end,
    serving_http,
)
from tests.service.server_process import ECHO_SERVER
from tests.service.test_supervision import eventually


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server with narrow bounds."""
    settings = {
        "max_message_bytes": "2048",
        "max_message_fields": "1000",
        "stall_seconds": "0.5",
    }
    log = tmp_path_factory.mktemp("bounded") / "log"
    with serving_http(ECHO_SERVER, log, settings) as server:
        yield server


def test_a_body_that_is_too_large_is_refused(bounded: HttpServer) -> None:
    url = f"{bounded.url}/v1/chat/completions"
    told = httpx2.post(url, json=chat("x" * 3000))
    kind = {"content-type": "application/json"}
    untold = httpx2.post(url, headers=kind, content=iter([b"x" * 1500, b"x" * 1500]))
    for response in (told, untold):
        assert response.status_code == 413
        assert error_of(response)["code"] == "limit_exceeded"
    many = httpx2.post(url, headers=kind, content=b"[" + b"0," * 1000 + b"0]")
    assert many.status_code == 400
    assert "more than 1000 values" in error_of(many)["message"]
    assert httpx2.post(url, json=chat("x" * 1500)).status_code == 200


def test_who_sends_slowly_is_cut_off(bounded: HttpServer) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with connected(bounded) as silent, connected(bounded) as halting, connected(bounded) as slow:
        halting.sendall(head)
        slow.sendall(head + b"content-length: 100\r\n\r\n{")
        began = time.monotonic()
        assert read_to_end(silent) == b""
        assert read_to_end(halting) == b""
        assert read_to_end_of(slow).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < 10


def read_to_end_of(opened: socket.socket) -> bytes:
    """One response, after which the connection may stay open."""
    read = b""
    while b"\r\n\r\n" not in read and (piece := opened.recv(65536)):
        read += piece
    return read


def test_a_header_beyond_its_bound_is_refused(bounded: HttpServer) -> None:
    with connected(bounded) as opened:
        opened.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000)
        assert read_to_end(opened)[:13] in (b"HTTP/1.1 400 ", b"")


def test_connections_beyond_the_bound_are_hung_up_on_where_all_are_busy(tmp_path: Path) -> None:
    body = json.dumps(completion("wait")).encode()
    head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with (
        serving_http(ECHO_SERVER, tmp_path / "log", {"max_connections": "4"}) as server,
        Client(server.process.address) as ours,
    ):
        with ExitStack() as opened:
            for _ in range(4):
                each = opened.enter_context(connected(server))
                each.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            eventually(lambda: ours.stats().running == 4)
            assert _is_hung_up_on(server)
        eventually(lambda: not _is_hung_up_on(server))


def _is_hung_up_on(server: HttpServer) -> bool:
    with connected(server) as opened:
        opened.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return not read_to_end(opened)


def test_who_reads_nothing_is_cut_off_and_gives_its_place_back(tmp_path: Path) -> None:
    settings = {"stall_seconds": "1", "max_message_bytes": str(2**24)}
    with serving_http(ECHO_SERVER, tmp_path / "log", settings) as server:
        # More than the system buffers for a connection.
        body = json.dumps(completion("x" * 12_000_000, 2, stream=True)).encode()
        head = (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        with connected(server) as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.sendall(head + body)
            log = server.process.log
            eventually(lambda: "status=CANCELLED" in log.read_text(), 20)
            # The connection is gone, though this side has not closed it.
            server_side = f":{httpx2.URL(server.url).port:04X} "
            ours = f":{opened.getsockname()[1]:04X} "
            table = Path("/proc/net/tcp").read_text().splitlines()
            assert not any(
                server_side in line and ours in line and " 01 " in line for line in table
            )
