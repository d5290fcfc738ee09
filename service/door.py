"""The door of the generation service: finds a request's caller, quotas, turn and priority.

::

    call ──▶ caller: token, or certificate, or connection
               │   priority no higher than the caller may have
               ▼
             quotas of the token ──used up──▶ QuotaExceededError
               │
               ▼
             a place, by fair shares ──▶ the engine ──▶ what was used is charged
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from guided.errors import RequestError
from guided.spec import GenerationRequest, GenerationResult
from guided_service.admission import Admission, Client
from guided_service.authentication import shown_token
from guided_service.config import ServerConfig
from guided_service.held_bytes import HeldBytes
from guided_service.large_answers import check_answers_fit
from guided_service.quotas import Account, Accounts, Charge
from guided_service.request_record import note_admitted, note_answered
from guided_service.status import Context
from guided_service.token_book import Token

__all__ = ["Admitted", "Caller", "Door"]

_ANY_WINDOW: Final = 2**31 - 1
"""The context window, in tokens, where no model is known."""

_WORTH_A_LEVEL: Final = 16
"""A client's next requests rank one priority level lower for each this many it has in the engine,
as many as run at once. So another client's first request passes those that only wait there."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and what it may use."""

    client: Client
    top_priority: int
    identity: str
    """Identifies the caller across connections: only it may have a repeated request's answer."""
    account: Account | None = None
    """What its token has used; ``None`` for a caller without one."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that holds a place."""

    request: GenerationRequest
    """The request as passed to the engine."""
    received: float
    """When it got its place; its turn in the engine counts from here. The wait for a place was
    already shared fairly, and counting it again would favour clients that send much."""
    charge: Charge
    """Receives what the request used."""

    def answered(self, result: GenerationResult) -> None:
        """Note the request's answer, and charge what it used."""
        note_answered(result)
        self.charge.answered(result)


class Door:
    """Admits requests, each in its turn and within what its caller may use."""

    def __init__(
        self, config: ServerConfig, window_of: Callable[[str], int] = lambda _: _ANY_WINDOW
    ) -> None:
        """``window_of`` returns the context window of a model by its name, in tokens."""
        self._window_of = window_of
        self._top_priority = config.top_priority
        self._accounts = Accounts()
        self.admission = Admission(
            config.max_requests_in_flight,
            config.max_requests_queued,
            config.most_of_one,
        )
        self.held = HeldBytes(config.max_held_bytes)

    def caller(self, context: Context) -> Caller:
        """Return the caller of a call."""
        shown = shown_token()
        return self._stranger_of(context) if shown is None else self.holder(*shown)

    def stranger(self, connection: str, identity: str | None = None) -> Caller:
        """Return a caller without a token: whom it shares places with, and its identity."""
        return Caller(Client(connection), self._top_priority, identity or connection)

    def holder(self, name: str, token: Token) -> Caller:
        """Return the caller that shows the token of this name."""
        top = self._top_priority if token.top_priority is None else token.top_priority
        account = self._accounts.of(name, token)
        identity = f"token {name}"
        return Caller(Client(identity, token.weight), top, identity, account)

    def _stranger_of(self, context: Context) -> Caller:
        """Return a caller without a token, by its certificate's subject or its connection."""
        names = context.peer_identities()
        if names:
            known = ", ".join(sorted(name.decode(errors="replace") for name in names))
            return self.stranger(f"certificate {known}")
        peer = context.peer()
        return self.stranger(f"connection {peer}", f"{_machine(peer)} {_shown(context)}")

    def check_room(
        self, caller: Caller, requests: Sequence[GenerationRequest], nbytes: int
    ) -> None:
        """Raise unless requests that differ in their prompts alone can be answered together.

        They have ``nbytes`` bytes in all. The errors are those of ``admitted``, and
        LimitExceededError for more than the caller's quotas ever allow at once.
        """
        window = self._window_of(requests[0].model)
        check_answers_fit(requests[0], window, self.held.most_of_call, len(requests))
        if caller.account is not None:
            size = nbytes // len(requests)
            caller.account.check_room([Charge.of(each, size, window) for each in requests])
        self.admission.check_room(len(requests), caller.client)

    @asynccontextmanager
    async def admitted(
        self, caller: Caller, request: GenerationRequest, nbytes: int, received: float
    ) -> AsyncIterator[Admitted]:
        """Hold a place, waiting for it in the request's order and within its deadline.

        The use that the block reports is charged to the request's caller. Raises LimitExceededError
        for answers that could not be held.
        """
        window = self._window_of(request.model)
        check_answers_fit(request, window, self.held.most_of_call)
        request = _with_priority(request, max(request.priority, caller.top_priority))
        charge = Charge.of(request, nbytes, window)
        account = caller.account
        with nullcontext() if account is None else account.charged(charge):
            async with self.admission.admitted(
                request.queue_key(received),
                seconds=request.deadline,
                client=caller.client,
                cost=charge.asked,
            ) as place:
                charge.has_place = True
                note_admitted()
                began = time.monotonic()
                try:
                    behind = request.priority + place.ahead // _WORTH_A_LEVEL
                    turned = _with_priority(request, min(behind, 100))
                    yield Admitted(_received_later(turned, began - received), began, charge)
                except BaseException as error:
                    # An invalid request was refused while it was being compiled.
                    is_wrong = isinstance(error, RequestError)
                    charge.ended(time.monotonic() - began, was_compiling=is_wrong)
                    raise
                finally:
                    place.cost = charge.used

    @asynccontextmanager
    async def working(
        self, caller: Caller, received: float, *, seconds: float | None
    ) -> AsyncIterator[None]:
        """Hold a place for work on a constraint or tokens, charged like a request that compiles.

        Waits at most ``seconds``, if given, and then raises DeadlineExceededError.
        """
        charge, account = Charge(asked=0.0), caller.account
        with nullcontext() if account is None else account.charged(charge):
            async with self.admission.admitted(received, seconds=seconds, client=caller.client):
                charge.has_place = True
                began = time.monotonic()
                try:
                    yield
                finally:
                    charge.compile_seconds = time.monotonic() - began


def _with_priority(request: GenerationRequest, priority: int) -> GenerationRequest:
    return request if request.priority == priority else replace(request, priority=priority)


def _received_later(request: GenerationRequest, seconds: float) -> GenerationRequest:
    """Return the request as if received this much later, with the same deadline."""
    if request.deadline is None:
        return request
    # The engine refuses a deadline that has almost passed.
    return replace(request, deadline=max(request.deadline - seconds, 1e-3))


def _machine(peer: str) -> str:
    """``ipv4:10.0.0.1:5555`` -> ``ipv4:10.0.0.1``: a new connection has another port."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


def _shown(context: Context) -> list[str | bytes]:
    """Return the caller's own credentials, which a proxy in front of this server may know."""
    return [value for key, value in context.invocation_metadata() or () if key == "authorization"]
