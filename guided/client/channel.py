"""Connections to a server: their options, and how long calls may take."""

from __future__ import annotations

import json
from numbers import Real

from guided.errors import RequestError

__all__ = [
    "CHANNEL_OPTIONS",
    "ClientBase",
    "checked_address",
    "checked_seconds",
]

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
                {"service": "guided.v1.GrammarService"},
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


def checked_seconds(timeout: float) -> float:
    """The time allowed for a call; raises ``RequestError`` unless it is a number."""
    if not isinstance(timeout, Real) or isinstance(timeout, bool):
        raise RequestError(
            f"timeout {timeout!r} is not a number", field="timeout", hint="pass seconds"
        )
    return timeout


class ClientBase:
    """What both clients are: a time allowed for calls, and whether they are closed."""

    def __init__(self, timeout: float) -> None:
        self._timeout = checked_seconds(timeout)
        self._is_closed = False

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else checked_seconds(timeout)

    def _open_seconds(self, timeout: float | None) -> float:
        """The time for a call, or RequestError where none can be made."""
        self._check_open()
        return self._seconds(timeout)

    def _check_open(self) -> None:
        if self._is_closed:
            raise RequestError("the client is closed", hint="make another")
