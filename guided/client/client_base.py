"""What the blocking and the asyncio client share: the connection, and the terms of calls."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from uuid import uuid4

import grpc.aio

from guided.client.request import Request
from guided.client.retry import Attempts, Connection, Terms
from guided.client.security import Endpoint, TlsChoice
from guided.errors import RequestError

__all__ = ["STATE_RETRIES", "ClientBase"]

DEFAULT_TERMS = Terms(timeout=600.0, retries=math.inf, concurrency=128)
"""The concurrency is twice what a server runs at once by default, so that it always has a request
to begin."""

STATE_RETRIES = 2
"""Retries of a call about the server's current state: that it is starting is an answer too."""


class ClientBase(ABC):
    """The base of both clients: their terms, and a connection that clients may share."""

    def __init__(
        self,
        address: str,
        *,
        timeout: float = DEFAULT_TERMS.timeout,
        retries: float = DEFAULT_TERMS.retries,
        concurrency: int = DEFAULT_TERMS.concurrency,
        tls: TlsChoice = False,
        token: str | None = None,
        insecure: bool = False,
    ) -> None:
        """Connect on first use; a client may be made anywhere, as in a module that is imported.

        ``timeout`` bounds each call, in seconds, and each request of a batch from when it is sent.
        ``retries`` is how often a call that was not taken is retried within this time. At most
        ``concurrency`` requests of a batch are in flight together. ``tls`` encrypts the connection,
        and ``token`` authenticates the caller; beyond this machine the token is sent unencrypted
        only if ``insecure`` is set.
        """
        self._terms = Terms(timeout, retries, concurrency)
        self._connection = Connection()
        endpoint = Endpoint.of(address, tls, token, insecure=insecure)
        self._services = self._services_of(endpoint)
        self._metadata = endpoint.metadata

    @abstractmethod
    def _services_of(self, endpoint: Endpoint) -> Any:
        """Return the services of a server, to be called through a channel of this client."""

    def with_options(
        self,
        *,
        timeout: float | None = None,
        retries: float | None = None,
        concurrency: int | None = None,
    ) -> Self:
        """Return a client of the same connection with other terms; ``None`` keeps a term.

        >>> quick = client.with_options(timeout=5, retries=0)

        Closing either of them closes the connection of both.
        """
        other = copy.copy(self)
        other._terms = self._terms.changed(
            timeout=timeout, retries=retries, concurrency=concurrency
        )
        return other

    def _attempts(
        self,
        timeout: float | None,
        request: Request[Any] | None = None,
        *,
        most_retries: float = math.inf,
    ) -> Attempts:
        """Return the attempts at a call, under its request's name or a new one."""
        self._check_open()
        retries = min(self._terms.retries, most_retries)
        terms = self._terms.changed(timeout=timeout, retries=retries)
        name = "" if request is None else request.request_id or uuid4().hex
        return Attempts(terms, self._connection, name)

    def _check_open(self) -> None:
        if self._connection.is_closed:
            raise RequestError("the client is closed", hint="make another")

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Raise ``RequestError`` if the client is closed, or is being closed by someone else."""
        self._check_open()
        try:
            yield
        except (ValueError, grpc.aio.UsageError):  # what closed channels raise
            self._check_open()
            raise
