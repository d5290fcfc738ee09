"""Enforces the quotas of a token: what its calls may use at once and within a minute.

Each minute's allowance is a *bucket* that refills at a steady rate; docs/security-settings.md says
what is taken from it, and when.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from guided.errors import LimitExceededError, ServiceUnavailableError
from guided.spec import GenerationRequest, GenerationResult
from guided_service.admission import OverloadedError
from guided_service.token_book import Limits

__all__ = ["Accounts", "Charge", "QuotaExceededError"]

_BYTES_OF_A_TOKEN = 4
"""A guess, as the prompt is not yet tokenised."""

_TOKENS_OF_A_SECOND = 100
"""A guess, as the answer is not known."""

_SECONDS = 60.0

Clock = Callable[[], float]


class QuotaExceededError(OverloadedError):
    """The caller has used up a quota of its token, named in the message."""

    def __init__(
        self,
        message: str,
        *,
        subject: str,
        quota: str,
        hint: str,
        retry_after_seconds: float | None,
    ) -> None:
        super().__init__(message, hint=hint, retry_after_seconds=retry_after_seconds)
        self.subject = subject
        """Whose quota it is, e.g. ``token:alice``."""
        self.quota = quota
        """Which one, e.g. ``tokens_per_minute of 60000``."""


@dataclass(slots=True)
class Charge:
    """What one request may use, and what it used."""

    asked: float
    """The most tokens it may use: those of its prompt, estimated, and of its answers."""
    prompt: float = 0.0
    """Tokens of its prompt, estimated."""
    used: float = 0.0
    """Tokens that it used."""
    compile_seconds: float = 0.0
    has_place: bool = False
    """Whether it found a place."""
    is_answered: bool = False
    """Whether its answer was charged."""

    @classmethod
    def of(cls, request: GenerationRequest, nbytes: int, window: int) -> Charge:
        """Return the charge of a request whose message has ``nbytes`` bytes.

        Each answer is charged its budget, but no more than the ``window`` of the model's context.
        """
        answers = request.drawn if request.beams is None else request.beams.width
        prompt = nbytes / _BYTES_OF_A_TOKEN
        return cls(prompt + min(request.most_tokens, window) * answers, prompt)

    def answered(self, result: GenerationResult) -> None:
        """Charge what an answer used."""
        usage, self.is_answered = result.usage, True
        self.used = float(usage.prompt_tokens + usage.output_tokens)
        self.compile_seconds = result.timing.compiling_seconds

    def ended(self, seconds: float, *, was_compiling: bool) -> None:
        """Charge a request without an answer, by the time for which it held a place."""
        if self.is_answered:  # only sending its answer failed
            return
        self.used = min(self.asked, self.prompt + _TOKENS_OF_A_SECOND * seconds)
        if was_compiling:
            self.compile_seconds = seconds


class Bucket:
    """An allowance for each minute."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._level = per_minute
        self._looked = clock()

    def set_allowance(self, per_minute: float) -> None:
        """Change the allowance; what was used stays used."""
        self._fill()
        self._level += per_minute - self._per_minute
        self._per_minute = per_minute

    def left(self) -> float:
        """Return what is left; below zero if more was used."""
        self._fill()
        return self._level

    def take(self, amount: float) -> None:
        """Take out an amount."""
        self._fill()
        self._level -= amount

    def seconds_until(self, wanted: float) -> float:
        """Return the seconds until this much is left."""
        return max(0.0, (wanted - self.left()) / self._per_minute * _SECONDS)

    def _fill(self) -> None:
        now = self._clock()
        filled = self._level + (now - self._looked) / _SECONDS * self._per_minute
        self._level, self._looked = min(self._per_minute, filled), now


class Account:
    """What the calls of one token have used."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._limits = Limits()
        self._buckets: dict[str, Bucket] = {}
        self._in_flight = 0
        self._reserved = 0.0

    def set_limits(self, limits: Limits) -> None:
        """Apply these limits from now on."""
        if limits is self._limits:
            return
        self._limits = limits
        for quota in ("requests_per_minute", "tokens_per_minute", "compile_seconds_per_minute"):
            allowance: float | None = getattr(limits, quota)
            if allowance is None:
                self._buckets.pop(quota, None)
            elif quota in self._buckets:
                self._buckets[quota].set_allowance(allowance)
            else:
                self._buckets[quota] = Bucket(allowance, self._clock)

    def check_room(self, charges: Sequence[Charge]) -> None:
        """Raise ``QuotaExceededError`` unless all of these may run at once now.

        Raises LimitExceededError if they never may.
        """
        # The last one may overdraw what is left of the tokens, as a single request may.
        requests, tokens = len(charges), sum([each.asked for each in charges[:-1]]) + 1
        for quota, needed in (
            ("requests_in_flight", requests),
            ("requests_per_minute", requests),
            ("tokens_per_minute", math.ceil(tokens)),
        ):
            allowance: int | None = getattr(self._limits, quota)
            if allowance is not None and needed > allowance:
                raise LimitExceededError(
                    f"the prompts need {needed} of {quota} at once, above the {allowance} of the "
                    f"token of {self._name}",
                    limit=allowance,
                    field="prompt",
                    hint="split them over several calls",
                )
        self._check(requests, tokens)

    @contextmanager
    def charged(self, charge: Charge) -> Iterator[None]:
        """Charge a request that runs in the block.

        Raises ``QuotaExceededError`` if a quota is used up. A request that finds no place in the
        server is not counted now, but when it is tried again.
        """
        self._check()
        self._take("requests_per_minute", 1)
        self._in_flight += 1
        self._reserved += charge.asked
        try:
            yield
        except ServiceUnavailableError:
            if not charge.has_place:
                self._take("requests_per_minute", -1)
            raise
        finally:
            self._in_flight -= 1
            self._reserved -= charge.asked
            self._take("tokens_per_minute", charge.used)
            self._take("compile_seconds_per_minute", charge.compile_seconds)

    def _check(self, requests: int = 1, tokens: float = 1.0) -> None:
        """Raise ``QuotaExceededError`` if less is left than what requests need to begin."""
        most = self._limits.requests_in_flight
        if most is not None and self._in_flight + requests > most:
            raise self._exceeded("requests_in_flight", most, None)
        for quota, needed, reserved in (
            ("requests_per_minute", float(requests), 0.0),
            # More must be left than running requests may still take.
            ("tokens_per_minute", tokens, self._reserved),
            ("compile_seconds_per_minute", 1e-3, 0.0),
        ):
            bucket = self._buckets.get(quota)
            if bucket is not None and bucket.left() < needed + reserved:
                allowance = getattr(self._limits, quota)
                # Reserved tokens come back sooner than a bucket refills.
                seconds = bucket.seconds_until(needed)
                raise self._exceeded(quota, allowance, seconds or None)

    def _take(self, quota: str, amount: float) -> None:
        if quota in self._buckets:
            self._buckets[quota].take(amount)

    def _exceeded(self, quota: str, allowance: float, seconds: float | None) -> QuotaExceededError:
        when = "shortly" if seconds is None else f"in {max(seconds, 0.1):.1f} s"
        named = f"{quota} of {allowance:g}"
        return QuotaExceededError(
            f"the token of {self._name} has used its {named}",
            subject=f"token:{self._name}",
            quota=named,
            hint=f"try again {when}",
            retry_after_seconds=seconds,
        )


class Accounts:
    """The accounts of all tokens, kept while the server runs, whatever their limits become."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._accounts: dict[str, Account] = {}

    def of(self, name: str, limits: Limits) -> Account:
        """Return the account of a token, with its current limits."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account(name, self._clock)
        account.set_limits(limits)
        return account
