"""Quotas: what a token may use within a minute, on a clock that the test advances."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from guided.errors import DeadlineExceededError, LimitExceededError, ServiceUnavailableError
from guided.spec import (
    Beams,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    Sampling,
    Timing,
    Usage,
)
from guided.testing.walking_model import WalkingModel
from guided_service.admission import Client, OverloadedError
from guided_service.config import ServerConfig
from guided_service.door import Caller, Door
from guided_service.intake import Readers
from guided_service.quotas import Account, Accounts, Charge, QuotaExceededError
from guided_service.servicers import GenerationServicer
from guided_service.token_book import Limits


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def spend(account: Account, asked: float, used: float = 0, compiling: float = 0) -> None:
    charge = Charge(asked)
    with account.charged(charge):
        charge.used = used
        charge.compile_seconds = compiling


def refusal(account: Account, asked: float = 1.0) -> tuple[str, float | None]:
    with pytest.raises(QuotaExceededError) as caught, account.charged(Charge(asked)):
        pass
    return str(caught.value), caught.value.retry_after_seconds


def test_requests_of_a_minute_are_counted_and_come_back_one_by_one() -> None:
    clock = Clock()
    account = Accounts(clock).of("ann", Limits(requests_per_minute=3))
    for _ in range(3):
        spend(account, 1)
    clock.now += 5
    text, pause = refusal(account)
    assert text == "the token of ann has used its requests_per_minute of 3; try again in 15.0 s"
    assert pause == pytest.approx(15.0)
    clock.now += 15
    spend(account, 1)
    refusal(account)
    clock.now += 1000
    for _ in range(3):
        spend(account, 1)
    refusal(account)


def test_tokens_are_charged_as_they_were_used() -> None:
    clock = Clock()
    account = Accounts(clock).of("ann", Limits(tokens_per_minute=600))
    for _ in range(5):
        spend(account, 10_000, used=100)
    spend(account, 10_000, used=300)  # something was left, so it may exceed the rest
    text, pause = refusal(account)
    assert text == "the token of ann has used its tokens_per_minute of 600; try again in 20.1 s"
    assert pause == pytest.approx(20.1)  # 201 tokens, ten a second
    clock.now += 20.2
    spend(account, 1, used=0)


@pytest.mark.parametrize(("seconds", "tokens"), [(0, 100), (2, 300), (60, 5100)])
def test_what_has_no_answer_is_charged_by_its_time(seconds: float, tokens: float) -> None:
    charge = Charge.of(GenerationRequest("x", max_tokens=5000), 400, 8192)
    charge.ended(seconds, was_compiling=False)
    assert (charge.used, charge.compile_seconds) == (tokens, 0)
    charge.ended(seconds, was_compiling=True)
    assert charge.compile_seconds == seconds


def test_an_answer_is_charged_as_it_was_even_if_its_caller_has_left() -> None:
    charge = Charge.of(GenerationRequest("x", max_tokens=5000), 400, 8192)
    usage = Usage(prompt_tokens=7, sampled_tokens=20)
    timing = Timing(compiling_seconds=0.5)
    charge.answered(GenerationResult("a", (), FinishReason.STOP, usage, seconds=2.0, timing=timing))
    charge.ended(60.0, was_compiling=False)
    assert (charge.used, charge.compile_seconds) == (27, 0.5)


def test_many_at_once_overdraw_by_no_more_than_one() -> None:
    account = Accounts(Clock()).of("ann", Limits(tokens_per_minute=1000))
    with ExitStack() as running:
        for _ in range(3):
            running.enter_context(account.charged(Charge(400)))
        text, pause = refusal(account)
        assert text.endswith("tokens_per_minute of 1000; try again shortly")
        assert pause is None
    spend(account, 1)  # nothing was used


@pytest.mark.parametrize(
    ("limits", "fit", "told"),
    [
        (Limits(requests_in_flight=2), 2, "need 3 of requests_in_flight at once, above the 2"),
        (Limits(requests_per_minute=3), 3, "need 4 of requests_per_minute at once, above the 3"),
        # The last one may overdraw.
        (Limits(tokens_per_minute=900), 3, "need 1201 of tokens_per_minute at once, above the 900"),
    ],
)
def test_requests_of_one_call_fit_together_or_never(limits: Limits, fit: int, told: str) -> None:
    clock = Clock()
    account = Accounts(clock).of("ann", limits)
    charges = [Charge(400) for _ in range(fit)]
    account.check_room(charges)
    with pytest.raises(LimitExceededError) as never:
        account.check_room([*charges, Charge(400)])
    assert str(never.value) == (
        f"the prompts {told} of the token of ann; split them over several calls"
    )
    with ExitStack() as running:
        for charge in charges:
            running.enter_context(account.charged(charge))
    clock.now += 60
    with account.charged(Charge(400)), pytest.raises(QuotaExceededError):
        account.check_room(charges)


def test_compilation_is_charged_by_the_second() -> None:
    clock = Clock()
    account = Accounts(clock).of("ann", Limits(compile_seconds_per_minute=6))
    spend(account, 1, compiling=9)
    text, pause = refusal(account)
    assert text.startswith("the token of ann has used its compile_seconds_per_minute of 6; try ")
    assert pause == pytest.approx(30, abs=0.1)
    clock.now += 31
    spend(account, 1)


def test_requests_in_flight_are_counted_while_they_run() -> None:
    account = Accounts(Clock()).of("ann", Limits(requests_in_flight=2))
    with account.charged(Charge(1)), account.charged(Charge(1)):
        with pytest.raises(QuotaExceededError) as caught, account.charged(Charge(1)):
            pass
        told = (caught.value.subject, caught.value.quota)
        assert told == ("token:ann", "requests_in_flight of 2")
        assert refusal(account) == (
            "the token of ann has used its requests_in_flight of 2; try again shortly",
            None,
        )
    spend(account, 1)


def test_requests_that_are_turned_away_are_not_counted() -> None:
    """By a full queue, and by a quota; one that waited in vain counts."""
    account = Accounts(Clock()).of("ann", Limits(requests_per_minute=3))
    asyncio.run(_ask_in_vain(Caller(Client("ann"), -3, "ann", account)))
    refusal(account)


async def _ask_in_vain(ann: Caller) -> None:
    """With three requests a minute, of which two find a place and one waits for one."""
    full, waits = (
        Door(ServerConfig(max_requests_in_flight=1, max_batch_size=1, max_requests_queued=queued))
        for queued in (0, 1)
    )
    async with full.admitted(ann, GenerationRequest("x"), 1, 0.0):
        for _ in range(5):
            with pytest.raises(OverloadedError, match="requests are in flight"):
                await _ask(full, ann)
            with pytest.raises(OverloadedError, match="requests are in flight"):
                async with full.working(ann, 0.0, seconds=None):
                    pass
    async with waits.admitted(ann, GenerationRequest("x"), 1, 0.0):
        with pytest.raises(DeadlineExceededError):
            await _ask(waits, ann, deadline=0.001)
        with pytest.raises(QuotaExceededError):
            await _ask(waits, ann)


async def _ask(door: Door, caller: Caller, **options: Any) -> None:
    async with door.admitted(caller, GenerationRequest("x", **options), 1, 0.0):
        pass


def test_requests_of_a_server_that_stops_are_not_counted() -> None:
    account = Accounts(Clock()).of("ann", Limits(requests_per_minute=1))

    async def ask_often() -> None:
        door = Door(ServerConfig())
        door.admission.close()
        for _ in range(3):
            with pytest.raises(ServiceUnavailableError, match="the server is stopping"):
                await _ask(door, Caller(Client("ann"), -3, "ann", account))

    asyncio.run(ask_often())
    spend(account, 1)
    refusal(account)


def test_a_request_that_lost_its_place_is_counted() -> None:
    account = Accounts(Clock()).of("ann", Limits(requests_per_minute=1))

    async def lose() -> None:
        caller = Caller(Client("ann"), -3, "ann", account)
        with pytest.raises(ServiceUnavailableError, match="the engine ended"):
            async with Door(ServerConfig()).admitted(caller, GenerationRequest("x"), 1, 0.0):
                raise ServiceUnavailableError("the engine ended")

    asyncio.run(lose())
    refusal(account)


def test_what_was_used_stays_used_when_limits_change() -> None:
    clock = Clock()
    accounts = Accounts(clock)
    limits = Limits(requests_per_minute=4)
    for _ in range(4):
        spend(accounts.of("ann", limits), 1)
    refusal(accounts.of("ann", limits))
    more = Limits(requests_per_minute=6)
    for _ in range(2):
        spend(accounts.of("ann", more), 1)
    refusal(accounts.of("ann", more))
    refusal(accounts.of("ann", Limits(requests_per_minute=1)))
    spend(accounts.of("ann", Limits()), 1)
    spend(accounts.of("bob", more), 1)


def test_what_a_request_asks_for() -> None:
    plain = GenerationRequest("x" * 400, max_tokens=50)
    assert Charge.of(plain, 400, 8192).asked == 150
    drawn = Sampling(temperature=1.0, seed=1)
    several = GenerationRequest("x", max_tokens=50, sampling=drawn, n=2, best_of=3)
    assert Charge.of(several, 400, 8192).asked == 250
    beams = GenerationRequest("x", max_tokens=50, beams=Beams(4))
    assert Charge.of(beams, 400, 8192).asked == 300


def test_an_answer_is_charged_no_more_than_the_context_holds() -> None:
    unset = GenerationRequest("x", default_max_tokens=32_000)
    assert Charge.of(unset, 400, 8192).asked == 100 + 8192
    beams = GenerationRequest("x", default_max_tokens=32_000, beams=Beams(4))
    assert Charge.of(beams, 400, 1024).asked == 100 + 4 * 1024


def test_a_request_is_charged_by_the_context_of_its_model() -> None:
    """A budget that nobody set is lowered to it, so its log-probabilities can be held too."""
    windows = {"short": 1024, "long": 2**20}

    async def asked(model: str, **options: Any) -> float:
        door = Door(ServerConfig(), windows.__getitem__)
        request = GenerationRequest("x", model=model, default_max_tokens=2**30, **options)
        async with door.admitted(door.stranger("ann"), request, 0, 0.0) as admitted:
            return admitted.charge.asked

    assert asyncio.run(asked("short", top_logprobs=20)) == 1024
    assert asyncio.run(asked("long")) == 2**20
    with pytest.raises(LimitExceededError, match="1 x 1048576 tokens"):
        asyncio.run(asked("long", top_logprobs=20))


def test_the_door_of_a_server_knows_the_context_of_its_model() -> None:
    readers = Readers()
    model = WalkingModel()
    door = GenerationServicer(model, ServerConfig(), readers).door

    async def asked() -> float:
        request = GenerationRequest("x", default_max_tokens=2**30)
        async with door.admitted(door.stranger("ann"), request, 0, 0.0) as admitted:
            return admitted.charge.asked

    assert asyncio.run(asked()) == model.model().context_window
    readers.close()
