"""Servers with the interface over HTTP, and the calls that tests make."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from guided.client import Tls
from tests.service.server_process import ServerProcess, serving

__all__ = [
    "HttpServer",
    "chat",
    "completion",
    "connected",
    "error_of",
    "read_to_end",
    "serving_http",
]


@dataclass(frozen=True)
class HttpServer:
    """A server that listens with both interfaces."""

    process: ServerProcess
    url: str
    """The base of its HTTP addresses, without a path."""

    def post(self, path: str, body: dict[str, Any], **options: Any) -> httpx2.Response:
        return httpx2.post(f"{self.url}{path}", json=body, timeout=60, **options)

    def chat(self, **body: Any) -> httpx2.Response:
        return self.post("/v1/chat/completions", chat(**body))


def chat(content: str = "hello", **fields: Any) -> dict[str, Any]:
    """The body of a call, with fields added or replaced."""
    return {"model": "echo", "messages": [{"role": "user", "content": content}], **fields}


@contextmanager
def serving_http(
    command: Sequence[str],
    log: Path,
    settings: dict[str, str] | None = None,
    *,
    timeout: float = 30.0,
    tls: bool | Tls = False,
) -> Iterator[HttpServer]:
    """A server whose engine is ready, on free ports."""
    with serving(
        command, log, {"http_port": "0", **(settings or {})}, timeout=timeout, tls=tls
    ) as server:
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        _, _, url = line.strip().partition("OpenAI's API at ")
        assert url.endswith("/v1"), f"said {line!r}"
        yield HttpServer(server, url.removesuffix("/v1"))


def completion(prompt: str, max_tokens: int = 1, **fields: Any) -> dict[str, Any]:
    return {"model": "echo", "prompt": prompt, "max_tokens": max_tokens, **fields}


def error_of(response: httpx2.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@contextmanager
def connected(server: HttpServer) -> Iterator[socket.socket]:
    url = httpx2.URL(server.url)
    with socket.create_connection((url.host, url.port or 0), 20) as opened:
        yield opened


def read_to_end(opened: socket.socket) -> bytes:
    """All bytes until the server closes the connection, in whatever way."""
    pieces = []
    try:
        while piece := opened.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)
