"""Connections that are held but not used keep no other caller out."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import grpc
import h2.config
import h2.connection
import httpx2
import pytest

from guided.client import Client, RawPrompt, Tls
from guided_service.connection_room import peer_of
from guided_service.connection_worth import Connection, address_of, too_many
from tests.kit.processes import facts_of
from tests.service.http2_peer import framed
from tests.service.http_server import serving_http
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_doors import Authority
from tests.service.test_strangers import GENERATE, HEALTH, WATCH, first_call, told_health
from tests.service.test_supervision import eventually

MOST: Final = 32
"""The number of connections that servers accept here; twice as many come."""

BOUNDED: Final = {"max_connections": f"{MOST}"}
CHECK: Final = "/grpc.health.v1.Health/Check"
POST: Final = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n{"
)
GET: Final = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


def spoken(path: str | None = None, message: bytes | None = None) -> bytes:
    """The beginning of a connection over gRPC, and a call, with or without its message."""
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    http.initiate_connection()
    if path is not None:
        names = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x"}
        grpc_names = {"te": "trailers", "content-type": "application/grpc"}
        http.send_headers(1, [*names.items(), *grpc_names.items()])
    if message is not None:
        http.send_data(1, framed(message), end_stream=True)
    return http.data_to_send()


@contextmanager
def held(address: str, sent: bytes) -> Iterator[None]:
    """Twice as many connections as a server accepts, kept open for the block."""
    host, _, port = address.rpartition(":")
    with ExitStack() as opened:
        for _ in range(2 * MOST):
            each = opened.enter_context(socket.create_connection((host, int(port)), 20))
            with suppress(OSError):  # the server may have hung up by now
                each.sendall(sent)
        yield


def answered(server: ServerProcess, callers: int) -> bool:
    """Whether the first calls of as many new connections are, one after the other."""
    return all(first_call(server) is grpc.StatusCode.OK for _ in range(callers))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="silent"),
        pytest.param(spoken(), id="set up"),
        pytest.param(spoken(GENERATE), id="a call without its message"),
        pytest.param(spoken(CHECK, b""), id="health asked once"),
    ],
)
def test_idle_connections_keep_nobody_out(tmp_path: Path, sent: bytes) -> None:
    with (
        serving(ECHO_SERVER, tmp_path / "log", BOUNDED) as server,
        ThreadPoolExecutor(1) as thread,
        Client(server.address, retries=0) as client,
    ):
        running = thread.submit(lambda: client.generate(RawPrompt("wait"), max_tokens=1))
        eventually(lambda: client.stats().running == 1)
        with held(server.address, sent):
            eventually(lambda: told_health(server) == HEALTH.SERVING, 10)
            # That may have had the only place that was free so far: they are freed one by one.
            eventually(lambda: answered(server, 4), 10)
            # Connections in use stay.
            assert not running.done()


def test_who_watches_the_health_leaves_room_for_others(tmp_path: Path) -> None:
    """The server does not hang up on watchers, so it limits their number."""

    with (
        serving(ECHO_SERVER, tmp_path / "log", BOUNDED) as server,
        held(server.address, spoken(WATCH, b"")),
    ):
        eventually(lambda: told_health(server) == HEALTH.SERVING, 10)
        # Until the last of them is refused, each is a connection in use.
        eventually(lambda: first_call(server) is grpc.StatusCode.OK, 10)


def test_a_connection_that_does_not_begin_is_ended(tmp_path: Path) -> None:
    """However much of HTTP/2's preface was sent."""
    with serving(ECHO_SERVER, tmp_path / "log", {"stall_seconds": "0.5"}) as server:
        place = (server.address.partition(":")[0], int(server.address.rpartition(":")[2]))
        for sent in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with socket.create_connection(place, 20) as opened:
                opened.sendall(sent)
                while opened.recv(4096):  # raises TimeoutError if it is not ended
                    pass


# Over HTTP


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="silent"),
        pytest.param(GET[:20], id="half a header"),
        pytest.param(GET, id="health asked once"),
        pytest.param(POST, id="half a body"),
    ],
)
def test_idle_connections_over_http_keep_nobody_out(tmp_path: Path, sent: bytes) -> None:
    body = {"model": "echo", "prompt": "wait", "stream": True}
    with (
        serving_http(ECHO_SERVER, tmp_path / "log", BOUNDED | {"drain_seconds": "0"}) as server,
        httpx2.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as running,
    ):
        pieces = running.iter_bytes()
        next(pieces)
        with held(server.url.removeprefix("http://"), sent):
            assert httpx2.get(f"{server.url}/health").status_code == 200
            assert server.chat(max_tokens=1).status_code == 200
        # Connections in use stay until they learn that the server ends.
        server.process.ask_to_stop()
        assert b"unavailable" in b"".join(pieces)


def test_handshakes_over_https_that_do_not_begin_keep_nobody_out(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    chain, key = authority.issue("server")
    settings = {**BOUNDED, "tls_cert": str(chain), "tls_key": str(key)}
    trusted = Tls(ca=authority.root)
    context = ssl.create_default_context(cafile=authority.root)
    with serving_http(ECHO_SERVER, tmp_path / "log", settings, tls=trusted) as server:
        before = facts_of(server.process.process.pid).descriptors
        with held(server.url.removeprefix("https://"), b""):
            assert httpx2.get(f"{server.url}/health", verify=context).status_code == 200
            assert facts_of(server.process.process.pid).descriptors <= before + MOST


# Which of them are closed


def of(key: str, host: str, made: float, called: float | None = None) -> Connection[str]:
    return Connection(key, host, made, called, is_busy=key.startswith("busy"))


def test_those_that_were_never_used_go_first_and_then_the_quiet() -> None:
    seen = [
        of("used", "10.0.0.1", 0, 5),
        of("busy", "10.0.0.1", 0),
        of("new", "10.0.0.1", 9),
        of("quiet", "10.0.0.1", 0, 1),
        of("old", "10.0.0.1", 1),
    ]
    # A quarter of the places is kept free.
    assert too_many(seen, 8) == []
    assert too_many(seen, 5) == ["old"]
    assert too_many(seen, 4) == ["old", "new"]
    assert too_many(seen, 1) == ["old", "new", "quiet", "used"]


@pytest.mark.parametrize("most", range(1, 9))
def test_of_however_few_places_one_is_kept_free(most: int) -> None:
    idle = [of(f"{n}", "10.0.0.1", n) for n in range(most)]
    assert too_many(idle, most)[0] == "0"
    assert len(too_many(idle, most)) == max(1, most // 4)
    assert too_many([of(f"busy {n}", "10.0.0.1", n) for n in range(most)], most) == []


@pytest.mark.parametrize("most", [1, 3])
def test_idle_connections_give_way_where_few_are_allowed(tmp_path: Path, most: int) -> None:
    with (
        serving_http(ECHO_SERVER, tmp_path / "log", {"max_connections": f"{most}"}) as server,
        ExitStack() as opened,
    ):
        for address in (server.process.address, server.url.removeprefix("http://")):
            host, _, port = address.rpartition(":")
            for _ in range(most):
                opened.enter_context(socket.create_connection((host, int(port)), 20))
        assert httpx2.get(f"{server.url}/health").status_code == 200
        eventually(lambda: told_health(server.process) == HEALTH.SERVING, 10)


def test_whoever_has_most_gives_way() -> None:
    crowd = [of(f"crowd {n}", f"2001:db8::{n}", n) for n in range(10)]
    few = [of("stranger", "2001:db8:1::1", 0), of("other", "10.0.0.1", 0)]
    assert too_many([*few, *crowd], 4) == [f"crowd {n}" for n in range(9)]
    busy = [of(f"busy {n}", "10.0.0.2", 0) for n in range(8)]
    assert too_many([*busy, *few], 4) == ["stranger", "other"]


def test_one_address_is_written_in_one_way() -> None:
    assert address_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert address_of("fe80::1%eth0") == "fe80::1"
    assert peer_of("ipv6:%5B::1%5D:50") == ("::1", 50)
    assert peer_of("ipv4:10.0.0.1:50") == ("10.0.0.1", 50)
    assert peer_of("unix:/run/guided") is None
