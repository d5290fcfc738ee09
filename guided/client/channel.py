"""What the channels of both clients share: the check of addresses, and options of the transport."""

from __future__ import annotations

from guided.errors import RequestError

__all__ = ["CHANNEL_OPTIONS", "checked_address"]

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

_RESOLVERS = ("dns:", "unix:", "unix-abstract:")
"""Schemes of addresses that the transport itself understands."""


def checked_address(address: str) -> str:
    """Return the address of a server; raises ``RequestError`` if the transport would misread it."""
    if not isinstance(address, str):
        raise RequestError(
            f"{address!r} is not an address", field="address", hint="pass host:port as a string"
        )
    scheme, separator, rest = address.partition("://")
    if separator and f"{scheme}:" not in _RESOLVERS:
        raise RequestError(
            "an address is host:port, without a scheme",
            field="address",
            hint=f"write {rest.partition('/')[0]!r}",
        )
    if "/" in address and not address.startswith(_RESOLVERS):
        raise RequestError(
            "an address is host:port, without a path",
            field="address",
            hint=f"write {address.partition('/')[0]!r}",
        )
    return address
