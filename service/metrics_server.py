"""Serves metrics over HTTP with a few threads, each connection within a bounded time.

It is encrypted if a certificate is given.
"""

from __future__ import annotations

import queue
import socket
import socketserver
import ssl
import threading
from typing import Any, Never
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from typing_extensions import override

from guided.errors import ServiceError
from guided_service.certificates import HttpCertificate

__all__ = ["serve_metrics"]

_THREADS = 4
_WAITING = 32
"""Connections that wait for a thread; more are closed at once."""
_SECONDS = 10.0
"""How long one connection may take, however slowly it sends or reads."""


class _Handler(WSGIRequestHandler):
    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapers come every few seconds."""


class _Server(WSGIServer):
    """Answers each connection in one of a few threads, which end with the process."""

    certificate: ssl.SSLContext | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connections: queue.Queue[tuple[socket.socket, Any]] = queue.Queue(_WAITING)
        for _ in range(_THREADS):
            threading.Thread(target=self._answer_all, name="metrics", daemon=True).start()

    @override
    def server_bind(self) -> None:
        """Bind without asking the network for this machine's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection and leave its handshake to the threads."""
        request, client_address = super().get_request()
        if self.certificate is not None:
            request = self.certificate.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            )
        return request, client_address

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to the threads, or close it if too many wait."""
        try:
            self._connections.put_nowait((request, client_address))
        except queue.Full:
            self.shutdown_request(request)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection: its scraper knows."""

    def _answer_all(self) -> Never:
        while True:
            self._answer(*self._connections.get())

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        # A timeout of the socket alone would restart with each byte.
        cut = threading.Timer(_SECONDS, _cut, (request,))
        cut.daemon = True
        cut.start()
        try:
            if isinstance(request, ssl.SSLSocket):
                request.do_handshake()
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            cut.cancel()
            self.shutdown_request(request)


class _Server6(_Server):
    address_family = socket.AF_INET6


def serve_metrics(
    host: str, port: int, registry: CollectorRegistry, certificate: HttpCertificate | None = None
) -> int:
    """Serve a registry until the process ends, encrypted if there is a certificate; returns the
    port."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        kind = _Server6 if family == socket.AF_INET6 else _Server
        server = make_server(host, port, make_wsgi_app(registry), kind, _Handler)
    except OSError as error:
        raise ServiceError(
            f"cannot serve metrics on {host}:{port}: {error.strerror or error}",
            hint="choose another metrics port",
        ) from error
    if certificate is not None:
        server.certificate = certificate.context()
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server.server_port


def _cut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has just ended
