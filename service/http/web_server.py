"""Listens for HTTP and stops: uvicorn in the event loop of the gRPC services.

One loop serves both HTTP and gRPC. So a request reaches the engine without a hop between threads,
and the door, the quotas and the log need no locks.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from guided.errors import ServiceError
from guided_service.certificates import HttpCertificate
from guided_service.config import ServerConfig
from guided_service.connection_worth import CallNotes, Peer, address_of, too_many
from guided_service.http.connection import connection_kind
from guided_service.http.noted_calls import NotedCalls
from guided_service.listening import check_exposure, in_url, most_connections

__all__ = ["WebServer"]

_MOST_HEADER_BYTES: Final = 2**15
"""Limit for the first line of a call and its headers together."""

_PART_OF_DESCRIPTORS: Final = 4
"""Connections over HTTP may take one in this many descriptors; those over gRPC have half."""

_LONGEST_SECONDS: Final = 2**31
"""More than any connection lasts; uvicorn takes whole seconds, and infinity is none."""

_PENDING: Final = 1024
"""Connections that the system queues until they are accepted."""


class _Server(uvicorn.Server):
    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the server whose loop this runs in."""
        yield


class _Listener(socket.socket):
    """A listening socket that replaces a bound one, with a bound on open connections.

    At the bound, those that are worth least are ended to admit the next one (``connection_worth``).
    A connection counts from the moment the system hands it over, so those whose encryption is not
    set up yet count as well.
    """

    def __init__(self, bound: socket.socket, most: int, notes: CallNotes) -> None:
        super().__init__(fileno=bound.detach())
        self._most = most
        self._notes = notes
        self._open: dict[socket.socket, tuple[Peer, float]] = {}
        """Open connections, with their peer and the time at which each came."""

    @override
    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; raises ``ConnectionAbortedError`` if the others are all busy."""
        taken, address = super().accept()
        if len(self._open) >= self._most:
            self._make_room()
        if len(self._open) >= self._most:
            taken.close()
            raise ConnectionAbortedError("all connections are busy")
        self._open[taken] = (address_of(address[0]), address[1]), time.monotonic()
        return taken, address

    def _make_room(self) -> None:
        self._open = {each: of for each, of in self._open.items() if each.fileno() >= 0}
        self._notes.forget_all_but([peer for peer, _ in self._open.values()])
        connections = [self._notes.of(each, *of) for each, of in self._open.items()]
        for each in too_many(connections, self._most):
            del self._open[each]
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class WebServer:
    """Serves an application on a port until it is stopped."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        """Bind the port; raises ``ServiceError`` with the reason if it cannot."""
        assert config.http_port is not None, "there is no port for HTTP"
        self.host, port = config.http_host, config.http_port
        check_exposure(config, self.host, port)
        notes, most = CallNotes(), most_connections(config, _PART_OF_DESCRIPTORS)
        self._sockets: list[socket.socket] = [
            _Listener(each, most, notes) for each in _bound(self.host, port)
        ]
        for each in self._sockets:
            # Connections inherit it; asyncio sets it only for sockets that it made itself.
            # Otherwise what follows a header waits for the caller to confirm the header, which
            # takes up to 40 ms.
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._sockets[0].getsockname()[1]
        certificate = HttpCertificate(config) if config.tls_files else None
        self.scheme = "http" if certificate is None else "https"
        self._server = _Server(
            uvicorn.Config(
                NotedCalls(app, notes),
                http=connection_kind(config),
                ws="none",
                interface="asgi3",
                lifespan="off",
                workers=1,
                # Faults of strangers are not logged; calls have log lines of their own.
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                reset_contextvars=True,
                backlog=_PENDING,
                timeout_keep_alive=int(min(config.idle_seconds, _LONGEST_SECONDS)),
                h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
                ssl_context_factory=(
                    None if certificate is None else lambda *_: certificate.context()
                ),
            )
        )
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"{self.scheme}://{in_url(self.host)}:{self.port}"

    async def start(self) -> None:
        """Begin to take calls; raises what keeps the server from it."""
        self._serving = asyncio.create_task(self._server.serve(self._sockets))
        while not self._server.started:
            if self._serving.done():
                self._close_sockets()
                self._serving.result()
                return  # stopped meanwhile
            await asyncio.sleep(0)

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()

    def close(self) -> None:
        """Stop accepting connections; open ones end after the call they run."""
        self._server.should_exit = True

    async def stop(self, seconds: float) -> None:
        """Close, and end what is left after this many seconds."""
        self.close()
        if self._serving is None:
            self._close_sockets()
            return
        await asyncio.wait({self._serving}, timeout=seconds)
        self._server.force_exit = True
        for task in list(self._server.server_state.tasks):
            task.cancel()
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await asyncio.wait({self._serving})


def _bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host, on one port."""
    address = f"{in_url(host)}:{port}"
    bound: list[socket.socket] = []
    try:
        if host == "::" and socket.has_dualstack_ipv6():
            return [socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)]
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, *_, place in dict.fromkeys(found):
            # All use the port that the first one got.
            taken = bound[0].getsockname()[1] if bound else port
            bound.append(socket.create_server((place[0], taken, *place[2:]), family=family))
    except OSError as error:
        for each in bound:
            each.close()
        raise ServiceError(
            f"cannot listen for HTTP on {address}: {error.strerror or error}",
            hint="choose another http_host or http_port; port 0 takes a free one",
        ) from error
    return bound
