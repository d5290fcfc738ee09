"""What both clients share: where a server is, options of the channel, and terms of calls."""

from __future__ import annotations

import copy
import math
from typing import Any, Self
from uuid import uuid4

from guided.client.request import Request
from guided.client.retry import Attempts, Connection, Terms
from guided.errors import RequestError

__all__ = [
    "CHANNEL_OPTIONS",
    "DEFAULT_TERMS",
    "STATE_RETRIES",
    "ClientBase",
    "checked_address",
]

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

DEFAULT_TERMS = Terms(timeout=600.0, retries=math.inf, concurrency=128)
"""Twice as many requests of a batch as a server runs at once by default, so that it always has one
to begin."""

STATE_RETRIES = 2
"""Of a call that asks what a server is doing now: that it is starting is an answer to that."""

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


class ClientBase:
    """What both clients are: terms, and what is known of the server, which may be shared."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._connection = Connection()

    def with_options(
        self,
        *,
        timeout: float | None = None,
        retries: float | None = None,
        concurrency: int | None = None,
    ) -> Self:
        """A client of the same connection with other terms; ``None`` leaves one as it is.

        >>> quick = client.with_options(timeout=5, retries=0)

        Closing either of them closes the connection of both.
        """
        other = copy.copy(self)
        other._terms = self._terms.changed(timeout, retries, concurrency)
        return other

    def _attempts(
        self,
        timeout: float | None,
        request: Request[Any] | None = None,
        *,
        most_retries: float = math.inf,
    ) -> Attempts:
        """The attempts at a call, named as its request or, where that has no name, by a new one."""
        self._check_open()
        terms = self._terms.changed(timeout, min(self._terms.retries, most_retries))
        name = "" if request is None else request.request_id or uuid4().hex
        return Attempts(terms, self._connection, name)

    def _check_open(self) -> None:
        if self._connection.is_closed:
            raise RequestError("the client is closed", hint="make another")
