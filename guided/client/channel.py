"""Connections to a server: their options, how long calls may take, waiting for it to be ready."""

from __future__ import annotations

import copy
import math
import time
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client.retry import Attempts, Link, Terms
from guided.client.status import raising_guided_errors
from guided.errors import RequestError, ServiceError, ServiceUnavailableError

__all__ = [
    "CHANNEL_OPTIONS",
    "DEFAULT_TERMS",
    "STATE_RETRIES",
    "ClientBase",
    "checked_address",
    "wait_until_serving",
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

_PAUSE_SECONDS = 0.1
"""Between two looks at a server that is not ready."""

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
        self._link = Link()

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
        request_id: str | None = None,
        most_retries: float = math.inf,
    ) -> Attempts:
        self._check_open()
        terms = self._terms.changed(timeout, min(self._terms.retries, most_retries))
        return Attempts(terms, self._link, request_id)

    def _check_open(self) -> None:
        if self._link.is_closed:
            raise RequestError("the client is closed", hint="make another")


def wait_until_serving(address: str, timeout: float) -> None:
    """Return once the server's health service says SERVING.

    Raises ``ServiceUnavailableError`` when ``timeout`` seconds have passed without it.
    """
    deadline = time.monotonic() + timeout
    with grpc.insecure_channel(checked_address(address)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while (state := _state(health)) != "SERVING":
            if time.monotonic() >= deadline:
                raise ServiceUnavailableError(
                    f"{address} did not say SERVING within {timeout:g} s; its last state is "
                    f"{state}",
                    hint="check the server's log, or wait longer",
                )
            time.sleep(_PAUSE_SECONDS)


def _state(health: health_pb2_grpc.HealthStub) -> str:
    try:
        with raising_guided_errors():
            # The stubs' types leave out the methods, which are attributes set when it is made.
            response = health.Check(  # type: ignore[attr-defined]
                health_pb2.HealthCheckRequest(), timeout=5.0
            )
    except ServiceError as error:
        # While one waits, a server that is not there yet is like one that is too busy.
        return str(error)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
