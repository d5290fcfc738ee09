"""What connections over HTTP/1.1 bring, whole or in pieces, is read in turn and within bounds."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from guided.client import Tls
from tests.service.http_server import HttpServer, chat, connected, read_to_end, serving_http
from tests.service.server_process import ECHO_SERVER
from tests.service.test_doors import Authority

_HOST = b"HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
_CHUNKED = _HOST + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    settings = {"stall_seconds": "0.5", "max_message_bytes": "40000"}
    log = tmp_path_factory.mktemp("bounded") / "log"
    with serving_http(ECHO_SERVER, log, settings) as server:
        yield server


def body_of(size: int) -> bytes:
    """A call with a prompt of so many characters, of which one token is wanted."""
    return json.dumps(chat("a" * size, max_tokens=1)).encode()


def chunks(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("prompt", [10, 9_000, 35_000])
@pytest.mark.parametrize("size", [100, 100_000])
def test_a_body_is_read_whole_however_it_comes(bounded: HttpServer, prompt: int, size: int) -> None:
    call = b"POST /v1/chat/completions " + _CHUNKED + chunks(body_of(prompt), size)
    last = call.replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n")
    with connected(bounded) as opened:
        # All at once, so the second begins inside of a piece of the first.
        opened.sendall(call + last)
        answers = read_to_end(opened)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert answers.count(b'"finish_reason"') >= 2


def test_a_body_is_read_whole_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    chain, key = authority.issue("server")
    settings = {"tls_cert": str(chain), "tls_key": str(key)}
    context = ssl.create_default_context(cafile=authority.root)
    line = b"POST /v1/chat/completions "
    calls = [line + _CHUNKED + chunks(body_of(200_000), size) for size in (1_000, 100_000)]
    calls[1] = calls[1].replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n")
    with (
        serving_http(ECHO_SERVER, tmp_path / "log", settings, tls=Tls(ca=authority.root)) as server,
        connected(server) as opened,
        context.wrap_socket(opened, server_hostname="127.0.0.1") as encrypted,
    ):
        encrypted.sendall(b"".join(calls))
        assert read_to_end(encrypted).count(b"HTTP/1.1 200") == 2


def test_a_call_of_very_many_chunks_is_cut(bounded: HttpServer) -> None:
    """Their headers are many times the body, which is within its bound."""
    body = body_of(20_000)
    with connected(bounded) as opened:
        with suppress(ConnectionError):
            opened.sendall(b"POST /v1/chat/completions " + _CHUNKED + chunks(body, 1))
        # Raises TimeoutError if the connection stays.
        assert read_to_end(opened) == b""
    assert bounded.chat(max_tokens=1).status_code == 200


@pytest.mark.parametrize("line", [b"POST /nowhere ", b"PUT /v1/models "])
def test_a_body_that_never_ends_is_cut_soon_after_its_answer(
    bounded: HttpServer, line: bytes
) -> None:
    with connected(bounded) as opened:
        opened.sendall(line + _CHUNKED)
        answer = opened.recv(4096)
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 405"))
        sender = threading.Thread(target=send_without_end, args=(opened,))
        sender.start()
        read_to_end(opened)
        sender.join(20)
        assert not sender.is_alive()


def send_without_end(opened: socket.socket) -> None:
    with suppress(OSError):
        while True:
            opened.sendall(b"1000\r\n" + b" " * 0x1000 + b"\r\n")


def test_a_call_that_is_answered_early_may_still_end(bounded: HttpServer) -> None:
    """Its caller sees the answer, and the connection serves another call."""
    with connected(bounded) as opened:
        opened.sendall(b"POST /nowhere " + _CHUNKED)
        assert opened.recv(4096).startswith(b"HTTP/1.1 404")
        opened.sendall(chunks(b" " * 10_000, 1_000))
        opened.sendall(b"GET /health " + _HOST + b"connection: close\r\n\r\n")
        assert b"HTTP/1.1 200" in read_to_end(opened)


def test_a_body_that_breaks_off_after_its_answer_keeps_no_connection(bounded: HttpServer) -> None:
    """Its first piece is answered, and the next one is no HTTP."""
    first = chunks(b" " * 8_000, 1_000)[: -len(b"0\r\n\r\n")]
    head = b"POST /nowhere " + _CHUNKED
    rest = 2**13 - len(head) - len(first)
    assert rest > 0
    with connected(bounded) as opened:
        opened.sendall(head + first + chunks(b" " * (rest - 6), rest)[:rest] + b"zzzz\r\n" * 2_000)
        read_to_end(opened)  # raises TimeoutError if the connection stays
