"""What the channels of both clients share: where a server is, and options of the transport."""

from __future__ import annotations

from guided.errors import RequestError

__all__ = ["CHANNEL_OPTIONS", "checked_address"]

CHANNEL_OPTIONS: tuple[tuple[str, str | int], ...] = (
    # Whether a call is made again is decided by ``guided.client.retry``; a connection that was lost
    # is tried again as soon as that asks for it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The server bounds what it is sent, with an error that names the limit; the client trusts
    # what it asked for.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
"""Options of both the blocking and the asyncio channel."""

_RESOLVERS = ("dns", "unix")
"""Schemes of addresses that the transport itself reads."""


def checked_address(address: str) -> str:
    """The address of a server; raises ``RequestError`` where the transport would misread it."""
    if not isinstance(address, str):
        raise RequestError(
            f"{address!r} is not an address", field="address", hint="pass host:port as a string"
        )
    scheme, separator, rest = address.partition("://")
    if separator and scheme not in _RESOLVERS:
        raise RequestError(
            "an address is host:port, without a scheme",
            field="address",
            hint=f"write {rest.rstrip('/')!r}",
        )
    return address
