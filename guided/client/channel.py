"""How the client's channels behave: retries and sizes."""

from __future__ import annotations

import json
from numbers import Real

from guided.errors import RequestError

__all__ = ["CHANNEL_OPTIONS", "checked_address", "checked_seconds"]

_RETRY_POLICY = {
    # The first attempt and two more. A server that knows better when to come again says so in
    # its trailing metadata, and the transport obeys.
    "maxAttempts": 3,
    "initialBackoff": "0.2s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
}

_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [
                {"service": "guided.v1.GenerationService"},
                {"service": "guided.v1.ModelService"},
            ],
            "retryPolicy": _RETRY_POLICY,
        }
    ]
}

CHANNEL_OPTIONS: tuple[tuple[str, str | int], ...] = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    # The server bounds what it is sent, with an error that names the limit; the client trusts
    # what it asked for.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
"""Options of both the blocking and the asyncio channel."""

_RESOLVERS = ("dns", "unix")
"""Schemes of addresses that the transport itself reads."""


def checked_address(address: str) -> str:
    """An address of a server, or ``RequestError`` for what the transport would misread."""
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


def checked_seconds(timeout: float) -> float:
    """A time allowed for a call, or ``RequestError`` for what is no number."""
    if not isinstance(timeout, Real) or isinstance(timeout, bool):
        raise RequestError(
            f"timeout {timeout!r} is not a number", field="timeout", hint="pass seconds"
        )
    return timeout
