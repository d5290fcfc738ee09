"""Each request of a batch has one outcome, and the window is as wide as the server allows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

import grpc
import pytest

from guided.client import AsyncClient, Client, Request
from guided.client.window import Asked, Window, in_order
from guided.errors import (
    AnswerValidationError,
    InternalServiceError,
    RequestError,
    ServiceUnavailableError,
)
from guided.v1 import generation_pb2 as pb
from tests.unit.client.failures import OVERLOADED, failed


def window(requests: Iterable[Request[Any]], concurrency: int = 8, **terms: Any) -> Window[Any]:
    client = Client("localhost:1", concurrency=concurrency, **terms)
    return Window(requests, concurrency, partial(client._attempts, None))


def answered(text: str) -> pb.GenerateResponse:
    return pb.GenerateResponse(text=text, finish_reason=pb.FINISH_REASON_STOP)


def test_outcomes_stand_where_their_requests_stood() -> None:
    batch = window([Request("a", int), Request("b", int), Request("c", int)])
    first, second, third = batch.due()
    completed = [
        batch.settle(third, answered("7")),
        batch.settle(first, answered("x")),
        batch.settle(second, failed(grpc.StatusCode.INVALID_ARGUMENT, "bad")),
    ]
    outcomes = in_order([one for one in completed if one is not None])
    assert list(batch.due()) == []
    assert not batch.is_open
    assert isinstance(outcomes[0], AnswerValidationError)
    assert isinstance(outcomes[1], RequestError)
    assert not isinstance(outcomes[2], Exception)
    assert outcomes[2].value == 7
    names = [one.attempts.request_id for one in (first, second, third)]
    assert [outcome.request_id for outcome in outcomes] == names
    assert [one.message.request_id for one in (first, second, third)] == names
    assert len(set(names)) == 3


def test_a_finish_reason_of_a_newer_server_is_an_outcome_of_its_request_alone() -> None:
    batch = window([Request("a")])
    (asked,) = batch.due()
    completed = batch.settle(asked, pb.GenerateResponse(text="x"))
    assert completed is not None
    assert isinstance(completed.outcome, InternalServiceError)
    assert "finish reason 0, unknown to this client" in str(completed.outcome)


def test_what_is_turned_away_comes_again_and_keeps_its_place() -> None:
    read = 0

    def requests() -> Iterable[Request[Any]]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield Request("x")

    batch = window(requests(), concurrency=8)
    sent = list(batch.due())
    assert (len(sent), read) == (8, 8)
    for asked in sent[3:]:  # the server accepts three
        assert batch.settle(asked, OVERLOADED) is None
    assert list(batch.due()) == []
    assert read == 8
    assert batch.seconds_to_wait() is None  # no others than those three are sent
    assert batch.settle(sent[0], answered("x")) is not None
    pause = batch.seconds_to_wait()
    assert pause is not None
    assert 0 < pause < 2


def test_a_window_widens_again_as_requests_are_answered() -> None:
    batch = window((Request("x") for _ in range(1000)), concurrency=8)
    sent = list(batch.due())
    for asked in sent[4:]:
        batch.settle(asked, OVERLOADED)
    waiting: list[Asked[Any]] = sent[:4]
    most = 0
    for _ in range(100):
        batch.settle(waiting.pop(0), answered("x"))
        waiting += batch.due()
        most = max(most, len(waiting))
    # Pausing requests hold four of its places.
    assert most == 4

    batch = window((Request("x") for _ in range(1000)), concurrency=8, retries=0)
    sent = list(batch.due())
    for asked in sent[4:]:
        completed = batch.settle(asked, OVERLOADED)
        assert completed is not None
        assert isinstance(completed.outcome, ServiceUnavailableError)
    waiting, sizes = sent[:4], [4]
    for _ in range(100):
        batch.settle(waiting.pop(0), answered("x"))
        waiting += batch.due()
        if len(waiting) > sizes[-1]:
            sizes.append(len(waiting))
    assert sizes == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        (["a"], "item 0 is not a guided.Request but 'a'; pass a list of guided.Request"),
        (
            [Request("a"), None],
            "item 1 is not a guided.Request but None; pass a list of guided.Request",
        ),
        (5, "5 is not a collection of requests; pass a list of guided.Request"),
    ],
)
def test_what_is_no_request_is_refused_by_both_clients_before_sending(
    requests: Any, text: str
) -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(RequestError) as caught:
        client.batch(requests)
    assert (str(caught.value), caught.value.field) == (text, "requests")

    async def talk() -> None:
        async with AsyncClient("127.0.0.1:1") as client:
            await client.batch(requests)

    with pytest.raises(RequestError) as again:
        asyncio.run(talk())
    assert str(again.value) == text
