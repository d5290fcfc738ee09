"""Listens for gRPC: encrypted beyond this machine, with bounds on connections.

docs/security-settings.md lists the bounds.
"""

from __future__ import annotations

import errno
import ipaddress
import socket

import grpc.aio

from guided.errors import ServiceError
from guided_service.certificates import GrpcCertificate
from guided_service.config import ServerConfig
from guided_service.descriptors import raise_descriptor_limit
from guided_service.first_message import UNREAD_BYTES

__all__ = [
    "bind",
    "check_exposure",
    "has_playground",
    "in_url",
    "is_loopback",
    "most_connections",
    "tells_methods",
    "transport_options",
]

_PENDING = 2**16
"""Calls that the transport has read but no handler has taken yet, over all connections. By default
it drops calls at random above a thousand, and if one caller opens and resets streams as fast as it
can, they are those of strangers. Calls are bounded per connection instead."""

_HANDSHAKE_SECONDS = 10.0
"""Time for a connection to begin, including its encryption; the transport's default is two
minutes."""

_UNBOUNDED = 2**31 - 1
"""The largest number that the transport takes, which it reads as no bound."""


def transport_options(config: ServerConfig) -> tuple[tuple[str, int], ...]:
    """Return the options of the transport."""
    age = _at_most(config.connection_age_seconds * 1000)
    handshake = min(_HANDSHAKE_SECONDS, config.stall_seconds)
    return (
        # Two servers on one port would share its calls by chance; let the second one fail.
        ("grpc.so_reuseport", 0),
        # Well above the limit, so that a message that is too large gets our own error.
        ("grpc.max_receive_message_length", _at_most(2 * config.max_message_bytes + 2**20)),
        # By default it takes up to 4 MiB of each message before it is requested.
        ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", most_connections(config)),
        # Closes connections that stay silent or begin with anything else.
        ("grpc.server_handshake_timeout_ms", int(1000 * handshake)),
        ("grpc.max_connection_idle_ms", _at_most(config.idle_seconds * 1000)),
        ("grpc.max_concurrent_streams", _at_most(config.max_streams_per_connection)),
        # After its age a connection takes no more calls; running ones have as long again.
        ("grpc.max_connection_age_ms", age),
        ("grpc.max_connection_age_grace_ms", age),
        ("grpc.server.max_pending_requests", _PENDING),
        ("grpc.server.max_pending_requests_hard_limit", 2 * _PENDING),
        # A caller may send pings to keep its connection, but not a flood of them.
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Detects callers that are gone without closing their connection.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    )


def _at_most(number: float) -> int:
    return int(min(number, _UNBOUNDED))


def bind(server: grpc.aio.Server, config: ServerConfig) -> int:
    """Listen where the settings say; returns the port.

    Raises ``ServiceError`` with the reason if it cannot listen.
    """
    check_exposure(config, config.host, config.port)
    address = f"{in_url(config.host)}:{config.port}"
    hint = "choose another host or port; port 0 takes a free one"
    if refusal := _refusal(config.host, config.port):
        raise ServiceError(f"cannot listen on {address}: {refusal}", hint=hint)
    try:
        if not config.tls_files:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, GrpcCertificate(config).credentials())
    except RuntimeError as error:
        # The rest of the transport's message is advice on debugging the transport.
        reason = str(error).partition(";")[0]
        raise ServiceError(f"cannot listen on {address}: {reason}", hint=hint) from error


def check_exposure(config: ServerConfig, host: str, port: int) -> None:
    """Raise ``ServiceError`` if others could read the traffic and no setting allows it."""
    if config.tls_cert is None and not config.insecure and not is_loopback(host):
        raise ServiceError(
            f"cannot listen on {in_url(host)}:{port}: others on the network could "
            "read and change what is sent, because it would not be encrypted",
            hint="give --tls-cert and --tls-key, or --insecure where something else protects it",
        )


def tells_methods(config: ServerConfig) -> bool:
    """Whether reflection is served: to this machine only, unless set otherwise."""
    return is_loopback(config.host) if config.reflection is None else config.reflection


def has_playground(config: ServerConfig) -> bool:
    """Whether the playground is served: to this machine only, unless set otherwise."""
    return is_loopback(config.http_host) if config.playground is None else config.playground


def is_loopback(host: str) -> bool:
    """Whether all addresses of the host are reachable from this machine only."""
    try:
        found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = {str(address[0]).partition("%")[0] for *_, address in found}
    return bool(host) and all(ipaddress.ip_address(each).is_loopback for each in addresses)


def in_url(host: str) -> str:
    """Return the host as written before a port."""
    return f"[{host}]" if ":" in host else host


def most_connections(config: ServerConfig, divisor: int = 2) -> int:
    """Return the most connections that take no more than a part of the descriptors; over gRPC, a
    half."""
    return max(1, min(config.max_connections, raise_descriptor_limit() // divisor))


def _refusal(host: str, port: int) -> str | None:
    """Return why the system refuses to listen, which the transport does not report, or ``None``.

    Tries all addresses of a name: the transport is content with one of them, but callers may try
    another one first.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return error.strerror or str(error)
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return f"port {port} is in use"
                if error.errno == errno.EACCES:
                    return f"port {port} is not open to this user"
    return None
