"""How a client reaches its server: addresses and transport, certificates and tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeAlias

import grpc
import grpc.aio
from grpc.experimental import ChannelOptions

from guided.bearer import bearer_of, checked_token
from guided.errors import RequestError

__all__ = ["CHANNEL_OPTIONS", "Endpoint", "Tls", "TlsChoice", "checked_address"]

CHANNEL_OPTIONS: tuple[tuple[str, str | int], ...] = (
    # ``guided.client.retry`` decides whether a call is retried; a lost connection is then retried
    # at once.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The server bounds the messages it receives, with an error that names the limit; the client
    # trusts the answers it requested.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
"""Options of both the blocking and the asyncio channel."""

DEFAULT_PORT: Final = 50051
"""The port of a server that was told no other."""

_RESOLVERS = ("dns:", "unix:", "unix-abstract:")
"""Schemes of addresses that the transport itself understands."""

_OTHER_ADDRESS: Final = re.compile(r"(unix|unix-abstract|ipv[46]|vsock):.+", re.DOTALL)
_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]+\]|[^:,\[\]]*):([^:,]+)")
_BARE_HOST: Final = re.compile(r"\[?([^\[\],]+?)\]?:?")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_LARGEST_PORT: Final = 65535

_READ_WHERE_THEY_ARE_ASKED_FOR: Final = (ChannelOptions.SingleThreadedUnaryStream, 1)
"""Reads streams in the calling thread: passing messages between threads doubles the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The authorities a client trusts, and its own certificate; all files are PEM."""

    ca: str | Path | None = None
    """The CAs of the server's certificate; ``None`` trusts the public authorities."""
    cert: str | Path | None = None
    """The client's own certificate, if the server requires one."""
    key: str | Path | None = None
    """Its private key."""
    server_name: str | None = None
    """The name in the server's certificate, if it differs from the address."""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise RequestError("a certificate and its key only go together", field="tls")

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a channel; raises ``RequestError`` for a missing file."""
        return grpc.ssl_channel_credentials(_read(self.ca), _read(self.key), _read(self.cert))


TlsChoice: TypeAlias = bool | Tls
"""``True`` trusts the public authorities."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How a server is reached; ``open`` and ``open_async`` open a channel."""

    address: str
    credentials: grpc.ChannelCredentials | None
    options: tuple[tuple[str, str | int], ...]
    token: str | None

    @classmethod
    def of(
        cls,
        address: str,
        tls: TlsChoice = False,
        token: str | None = None,
        *,
        insecure: bool = False,
    ) -> Endpoint:
        """Return the endpoint that a user of the client describes, checked.

        A token is sent unencrypted over the network only if ``insecure`` is set.
        """
        checked = checked_address(address)
        options = CHANNEL_OPTIONS
        if isinstance(tls, Tls) and tls.server_name is not None:
            options += (("grpc.ssl_target_name_override", tls.server_name),)
        if token is not None:
            checked_token(token)
            if tls is False and not insecure and not _is_on_this_machine(checked):
                raise RequestError(
                    f"the token would travel to {checked} unencrypted",
                    field="token",
                    hint="pass tls=True or guided.Tls(ca=...), or insecure=True where something "
                    "else encrypts it",
                )
        return cls(checked, _credentials(tls), options, token)

    def open(self) -> grpc.Channel:
        """Open a channel for the blocking client."""
        options = (*self.options, _READ_WHERE_THEY_ARE_ASKED_FOR)
        if self.credentials is None:
            return grpc.insecure_channel(self.address, options=options)
        return grpc.secure_channel(self.address, self.credentials, options=options)

    def open_async(self, interceptors: Sequence[grpc.aio.ClientInterceptor]) -> grpc.aio.Channel:
        """Open a channel for the asyncio client, whose calls pass the interceptors."""
        options = self.options
        if self.credentials is None:
            return grpc.aio.insecure_channel(
                self.address, options=options, interceptors=interceptors
            )
        return grpc.aio.secure_channel(
            self.address, self.credentials, options=options, interceptors=interceptors
        )

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of each call, which shows the token.

        Call credentials would do the same, but only over encrypted channels.
        """
        return () if self.token is None else (("authorization", bearer_of(self.token)),)


def checked_address(address: str) -> str:
    """Return the address of a server; raises ``RequestError`` if the transport would misread it."""
    if not isinstance(address, str):
        raise RequestError(
            f"{address!r} is not an address", field="address", hint="pass host:port as a string"
        )
    scheme, separator, rest = address.partition("://")
    if separator and f"{scheme}:" not in _RESOLVERS:
        raise _misread("without a scheme", rest.strip("/").partition("/")[0])
    if _OTHER_ADDRESS.fullmatch(address):
        return address
    resolver = address[: address.rfind("/") + 1] or "dns:" if address.startswith("dns:") else ""
    name = address.removeprefix(resolver)
    if "/" in name:
        is_socket = address.startswith("/")
        close = f"unix:{address}" if is_socket else address.partition("/")[0]
        raise _misread("without a path", close)
    if "," in name:
        raise RequestError(
            "an address is that of one server", field="address", hint="make a client for each"
        )
    found = _HOST_AND_PORT.fullmatch(name)
    if found is None:  # the transport would take the port of HTTPS
        host = _BARE_HOST.fullmatch(name)
        close = f"{resolver}{_bracketed(host[1])}:{DEFAULT_PORT}" if host else ""
        raise _misread("not a host alone", close)
    port = found[2]
    if not (_PORT.fullmatch(port) and 1 <= int(port) <= _LARGEST_PORT):
        raise RequestError(
            f"the port {port!r:.40} of the address is not a number from 1 to {_LARGEST_PORT}",
            field="address",
            hint=f"a server that was told no other has {DEFAULT_PORT}",
        )
    return address


def _misread(fault: str, close: str) -> RequestError:
    hint = f"write {close!r}" if close else None
    return RequestError(f"an address is host:port, {fault}", field="address", hint=hint)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _credentials(tls: TlsChoice) -> grpc.ChannelCredentials | None:
    match tls:
        case False:
            return None
        case True:
            return Tls().credentials()
        case Tls():
            return tls.credentials()
        case _:
            raise RequestError(f"tls is {tls!r}", field="tls", hint="pass True or guided.Tls(...)")


def _read(file: str | Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", field="tls") from error


def _is_on_this_machine(address: str) -> bool:
    """Whether the address itself names this machine; names are not resolved."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition("/")[2].rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
