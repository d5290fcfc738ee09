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
        fault, close = "without a scheme", rest.strip("/").partition("/")[0]
    elif "/" in address and not address.startswith(_RESOLVERS):
        is_socket = address.startswith("/")
        fault = "without a path"
        close = f"unix:{address}" if is_socket else address.partition("/")[0]
    else:
        return address
    hint = f"write {close!r}" if close else None
    raise RequestError(f"an address is host:port, {fault}", field="address", hint=hint)
