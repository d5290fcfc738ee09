"""How a client verifies its server and authenticates itself: certificates and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeAlias

import grpc
import grpc.aio
from grpc.experimental import ChannelOptions

from guided.bearer import bearer_of, checked_token
from guided.client.channel import CHANNEL_OPTIONS, checked_address
from guided.errors import RequestError

__all__ = ["Endpoint", "Tls", "TlsChoice"]

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
