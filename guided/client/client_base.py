"""What the blocking and the asyncio client share: the connection, and the terms of calls."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import Any, Self
from uuid import uuid4

from guided.client.request import Request
from guided.client.retry import Attempts, Connection, Terms
from guided.client.security import Endpoint, TlsChoice
from guided.errors import RequestError
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.v1.grammar_pb2_grpc import GrammarServiceStub
from guided.v1.model_pb2_grpc import ModelServiceStub

__all__ = ["STATE_RETRIES", "ClientBase"]

DEFAULT_TERMS = Terms(timeout=600.0, retries=math.inf, concurrency=128)
"""Twice as many requests of a batch as a server runs at once by default, so that it always has one
to begin."""

STATE_RETRIES = 2
"""Of a call that asks what a server is doing now: that it is starting is an answer to that."""


class ClientBase(ABC):
    """What both clients are: terms, and what is known of the server, which may be shared."""

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
        """Connect on first use.

        ``timeout`` bounds each call, in seconds, and each request of a batch from when it is sent.
        ``retries`` is how often a call that was not taken on is made again, within this time. Of a
        batch at most ``concurrency`` requests are in flight together. ``tls`` encrypts, and
        ``token`` says who calls; beyond this machine the token goes unencrypted only where
        ``insecure`` says so.
        """
        self._terms = Terms(timeout, retries, concurrency)
        self._connection = Connection()
        endpoint = Endpoint.of(address, tls, token, insecure=insecure)
        self._channel = self._opened(endpoint)
        shown = endpoint.authorized(self._channel)
        self._service = GenerationServiceStub(shown)
        self._model_service = ModelServiceStub(shown)
        self._grammar_service = GrammarServiceStub(shown)

    @abstractmethod
    def _opened(self, endpoint: Endpoint) -> Any:
        """The channel to a server."""

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
