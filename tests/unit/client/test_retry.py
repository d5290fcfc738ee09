"""Which calls are made again, when, and how often."""

from __future__ import annotations

import math
import time

import grpc
import grpc.aio
import pytest

from guided.client.retry import Attempts, Connection, Terms
from guided.client.status import Chance, failure_of
from guided.errors import DeadlineExceededError, ServiceUnavailableError
from tests.unit.client.failures import OVERLOADED, failed

UNREACHED = failed(
    grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN"
)
BROKEN = failed(grpc.StatusCode.UNAVAILABLE, "Socket closed")
TERMS = Terms(timeout=600.0, retries=math.inf, concurrency=1)


@pytest.mark.parametrize(
    ("error", "chance", "seconds"),
    [
        (OVERLOADED, Chance.REFUSED, 1.0),
        (failed(grpc.StatusCode.UNAVAILABLE, "starting", "250"), Chance.REFUSED, 0.25),
        (failed(grpc.StatusCode.UNAVAILABLE, "cut off", "-1"), Chance.NONE, 0.0),
        (failed(grpc.StatusCode.UNAVAILABLE, "odd", "soon"), Chance.NONE, 0.0),
        (UNREACHED, Chance.UNREACHED, 0.1),
        (BROKEN, Chance.BROKEN, 0.1),
        # A message too large for the transport, or a proxy that refuses the call.
        (failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"), Chance.BROKEN, 0.1),
        (failed(grpc.StatusCode.INVALID_ARGUMENT, "bad", "100"), Chance.NONE, 0.0),
        (failed(grpc.StatusCode.DEADLINE_EXCEEDED), Chance.NONE, 0.0),
        (failed(grpc.StatusCode.INTERNAL), Chance.NONE, 0.0),
        (failed(grpc.StatusCode.CANCELLED), Chance.NONE, 0.0),
    ],
)
def test_a_failure_has_its_chance_and_its_pause(
    error: grpc.aio.AioRpcError, chance: Chance, seconds: float
) -> None:
    failure = failure_of(error)
    assert (failure.chance, failure.seconds) == (chance, seconds)


def test_pauses_grow_are_drawn_and_keep_to_what_the_server_asks() -> None:
    runs = [Attempts(TERMS, Connection()) for _ in range(50)]
    pauses = [[attempts.pause(OVERLOADED) for _ in range(8)] for attempts in runs]
    longest = [max(pause[step] for pause in pauses) for step in range(8)]
    bounds = [1 + min(0.2 * 2**step, 5.0) for step in range(8)]
    assert all(1 <= pause <= bounds[step] for run in pauses for step, pause in enumerate(run))
    assert longest[7] > longest[3] > longest[0]
    assert len({round(run[0], 9) for run in pauses}) == 50


def test_the_time_of_a_call_is_that_of_all_its_attempts() -> None:
    attempts = Attempts(Terms(4.0, math.inf, 1), Connection())
    soon = failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "10")
    for _ in range(20):  # the last of them would pause for seconds
        assert attempts.pause(soon) < attempts.seconds_left
    late = failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "5000")
    with pytest.raises(ServiceUnavailableError, match="full"):
        attempts.pause(late)


def test_a_deadline_says_why_the_attempt_before_it_failed() -> None:
    late = failed(grpc.StatusCode.DEADLINE_EXCEEDED, "too late")
    attempts = Attempts(TERMS, Connection(), "mine")
    attempts.pause(OVERLOADED)
    with pytest.raises(
        DeadlineExceededError, match=r"too late; .* before failed: .*full"
    ) as caught:
        attempts.pause(late)
    assert caught.value.request_id == "mine"
    with pytest.raises(DeadlineExceededError) as caught:
        attempts.renewed("another").pause(late)
    assert "before" not in str(caught.value)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_counted(retries: int) -> None:
    attempts = Attempts(TERMS.changed(retries=retries), Connection(), "mine")
    for _ in range(retries):
        attempts.pause(OVERLOADED)
    with pytest.raises(ServiceUnavailableError) as caught:
        attempts.pause(OVERLOADED)
    assert caught.value.request_id == "mine"


def test_a_broken_connection_is_made_again_twice() -> None:
    attempts = Attempts(TERMS, Connection())
    for _ in range(2):
        attempts.pause(BROKEN)
        attempts.pause(OVERLOADED)  # this does not count
    with pytest.raises(ServiceUnavailableError, match="Socket closed"):
        attempts.pause(BROKEN)


def test_a_server_that_is_away_is_given_up_by_all_calls_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    connection = Connection()

    def tries(seconds: float) -> int:
        """How often a new call is made within a time, until it fails."""
        nonlocal now
        attempts, made, begun = Attempts(TERMS, connection), 1, now
        while now - begun < seconds:
            try:
                now += attempts.pause(UNREACHED)
            except ServiceUnavailableError:
                break
            made += 1
        return made

    assert tries(60) > 2
    assert now < 103  # it has never answered
    assert tries(60) == 1
    Attempts(TERMS, connection).succeed()
    begun = now
    assert tries(600) > 20
    assert 30 <= now - begun < 33
    assert tries(60) == 1
    Attempts(TERMS, connection).pause(OVERLOADED)  # any sign of life counts
    assert tries(60) > 2
