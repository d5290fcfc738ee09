"""Decides whether, when and how often a call is retried.

====================================  ==========================================================
why it was not answered               it is retried
====================================  ==========================================================
the server had no place for it,       as long as its time lasts, when the server says
or was starting
there was no connection               while a server that restarts may come back
the connection broke                  twice, under the same request id, by which the server knows it
anything else                         never: it may have run, or would fail again
====================================  ==========================================================

gRPC's own retries stop at five attempts, and a batch must know of a pause without sleeping through
it; so they are off, and the caller consults ``Attempts`` after each failure.
"""

from __future__ import annotations

import copy
import random
import time
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import grpc

from guided.client.status import Chance, Failure, failure_of
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    RequestCancelledError,
    RequestError,
)

__all__ = ["Attempts", "Connection", "Terms", "check_amount"]

_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 5.0
"""Seconds; each pause is drawn between zero and the back-off, on top of what the server requests,
so that callers refused together do not come back together."""

_LONGEST_CALL = 1e9
"""Seconds, 30 years; beyond centuries the transport's clock overflows, and calls end at once."""

_LONGEST_RECONNECTION = 1.0
"""Seconds; the longest back-off while no server is there to be overloaded."""

_BROKEN_RETRIES = 2
"""Few, as a request may have run when its connection broke, and may have ended the server."""

_RESTART_SECONDS = 30.0
"""How long a server that has answered before may be away."""

_START_SECONDS = 1.0
"""How long a server that never answered may be away: its address may be wrong."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long and how often a client tries, and how many requests it sends at once."""

    timeout: float
    """Seconds for each call, including all its attempts."""
    retries: float
    """Attempts after the first; infinite for as many as fit into the time."""
    concurrency: int
    """Most requests of a batch that are in flight together."""

    def __post_init__(self) -> None:
        check_amount(self.timeout, "timeout", hint="pass seconds")
        check_amount(self.retries, "retries", hint="pass how often")
        check_amount(self.concurrency, "concurrency", hint="pass one")
        if not isinstance(self.concurrency, int) or self.concurrency < 1:
            raise RequestError(
                f"concurrency {self.concurrency!r} is not a whole number of at least 1",
                field="concurrency",
            )

    def changed(self, **given: Any) -> Self:
        """Return the terms with some changed; ``None`` keeps a term."""
        return replace(self, **{name: each for name, each in given.items() if each is not None})


def check_amount(value: object, name: str, *, hint: str) -> None:
    """Raise ``RequestError`` unless a value is a number from 0 up, perhaps infinite."""
    if not isinstance(value, Real) or isinstance(value, bool) or value != value:
        raise RequestError(f"{name} {value!r} is not a number", field=name, hint=hint)
    try:
        amount = float(value)
    except OverflowError:
        raise RequestError(
            f"{name} is above 1e308, beyond all numbers", field=name, hint="pass math.inf"
        ) from None
    if amount < 0:
        raise RequestError(f"{name} {value!r} is below 0", field=name)


@dataclass(slots=True)
class Connection:
    """What is known of the server; clients of one connection share it."""

    is_closed: bool = False
    has_answered: bool = False
    lost_at: float | None = None
    """When it was first found away since it last answered; by the monotonic clock."""

    def hear(self) -> None:
        """Note that the server answered."""
        self.has_answered, self.lost_at = True, None

    def may_come_back(self) -> bool:
        """Whether a server that cannot be reached now is worth another attempt."""
        now = time.monotonic()
        if self.lost_at is None:
            self.lost_at = now
        return now - self.lost_at < (_RESTART_SECONDS if self.has_answered else _START_SECONDS)


class Attempts:
    """The attempts at one call."""

    def __init__(self, terms: Terms, connection: Connection, request_id: str = "") -> None:
        """``request_id`` names the request, if the call is for an answer."""
        self.request_id = request_id
        self._connection = connection
        self._deadline = time.monotonic() + terms.timeout
        self._retries_left = terms.retries
        self._broken_left = _BROKEN_RETRIES
        self._backoff = _FIRST_BACKOFF
        self._failed_before: GuidedError | None = None

    def renewed(self, request_id: str) -> Attempts:
        """Return the attempts at another call of this name, within the same time."""
        following = copy.copy(self)
        following.request_id = request_id
        following._broken_left = _BROKEN_RETRIES
        following._backoff = _FIRST_BACKOFF
        following._failed_before = None
        return following

    @property
    def seconds_left(self) -> float:
        """The seconds that remain for the call."""
        return min(max(self._deadline - time.monotonic(), 0.0), _LONGEST_CALL)

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._connection.is_closed

    def succeed(self) -> None:
        """Note that the server answered."""
        self._connection.hear()

    def pause(self, error: grpc.RpcError) -> float:
        """Return the seconds before the call is retried, or raise the error it failed with."""
        failure = failure_of(error)
        if failure.is_told:
            self._connection.hear()
        left = self.seconds_left
        if failure.seconds >= left or not self._may_repeat(failure):
            raise self._last(failure.error) from error
        self._retries_left -= 1
        self._failed_before = failure.error
        longest = _LONGEST_BACKOFF if failure.chance is Chance.REFUSED else _LONGEST_RECONNECTION
        drawn = random.uniform(0, min(self._backoff, longest))  # noqa: S311 - no secret
        pause = failure.seconds + drawn
        self._backoff = min(2 * self._backoff, _LONGEST_BACKOFF)
        # Near the end wait only half of what remains, so as not to miss a place that becomes free.
        return min(pause, (failure.seconds + left) / 2)

    def final(self, error: grpc.RpcError) -> GuidedError:
        """Return the error of a call that cannot be retried."""
        return self._last(failure_of(error).error)

    def named(self, error: GuidedError) -> GuidedError:
        """Name in an error the request that it concerns."""
        # A server that could not read the request has given it another name.
        error.request_id = error.request_id or self.request_id or None
        return error

    def _last(self, error: GuidedError) -> GuidedError:
        """Return the error of the last attempt; that of a deadline says what took the time.

        A call that was cancelled by closing the client says so.
        """
        if self.is_closed and isinstance(error, RequestCancelledError):
            return self.named(RequestCancelledError("the client was closed"))
        before = self._failed_before
        if before is not None and isinstance(error, DeadlineExceededError):
            why = f"{error.message}; the attempt before failed: {before.message}"
            told, error = error, DeadlineExceededError(why, hint=error.hint)
            error.request_id = told.request_id
        return self.named(error)

    def _may_repeat(self, failure: Failure) -> bool:
        if self._retries_left < 1:
            return False
        match failure.chance:
            case Chance.REFUSED:
                return True
            case Chance.UNREACHED:
                return self._connection.may_come_back()
            case Chance.BROKEN:
                self._broken_left -= 1
                return self._broken_left >= 0
            case Chance.NONE:
                return False
