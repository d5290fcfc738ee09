"""Metrics are served by a few threads, whatever their callers do."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, Gauge

from guided.errors import ServiceError
from guided_service import metrics_server
from guided_service.metrics_server import serve_metrics
from tests.service.test_supervision import eventually


@pytest.fixture
def port() -> int:
    registry = CollectorRegistry()
    Gauge("answer", "What it is.", registry=registry).set(42)
    return serve_metrics("127.0.0.1", 0, registry)


def scraped(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as response:
        text: str = response.read().decode()
        return text


def test_metrics_are_served(port: int) -> None:
    assert "answer 42.0" in scraped(port)


def test_those_who_send_nothing_are_bounded_and_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "_SECONDS", 1.0)
    monkeypatch.setattr(metrics_server, "_WAITING", 4)
    registry = CollectorRegistry()
    Gauge("answer", "What it is.", registry=registry).set(42)
    before = threading.active_count()
    port = serve_metrics("127.0.0.1", 0, registry)
    with ExitStack() as opened:
        slow = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(30)
        ]
        for each in slow:
            each.sendall(b"GET /metrics HTTP/1.1\r\n")  # and never the rest
        # The server hung up at once on those without a thread or a place to wait.
        assert slow[-1].recv(1) == b""
        # A thread that accepts, four that answer, and a timer of each.
        assert threading.active_count() <= before + 9
        assert slow[0].recv(1) == b""
        for each in slow:
            each.close()
        eventually(lambda: _is_scraped(port))


def _is_scraped(port: int) -> bool:
    try:
        return "answer 42.0" in scraped(port)
    except OSError:  # all threads may still be serving those who have just hung up
        return False


def test_a_port_that_is_taken_is_named(port: int) -> None:
    with pytest.raises(ServiceError, match=f"cannot serve metrics on 127.0.0.1:{port}: ") as caught:
        serve_metrics("127.0.0.1", port, CollectorRegistry())
    assert caught.value.hint == "choose another metrics port"
