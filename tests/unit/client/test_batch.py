"""Each request of a batch has one outcome, whatever order they come in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.rpc import status_pb2

from guided.client import AsyncClient, Client, Request
from guided.client.incoming import Batch, checked_requests, in_order
from guided.errors import AnswerValidationError, InternalServiceError, RequestError
from guided.v1 import generation_pb2 as pb


def answered(index: int, text: str) -> pb.GenerateBatchResponse:
    response = pb.GenerateResponse(text=text, finish_reason=pb.FINISH_REASON_STOP)
    return pb.GenerateBatchResponse(index=index, response=response)


def test_outcomes_stand_where_their_requests_stood() -> None:
    batch = Batch([Request("a", int), Request("b", int), Request("c", int)])
    refused = pb.GenerateBatchResponse(index=1, error=status_pb2.Status(code=3, message="bad"))
    outcomes = in_order(
        [batch.read(answered(2, "7")), batch.read(answered(0, "x")), batch.read(refused)]
    )
    batch.check_complete()
    assert isinstance(outcomes[0], AnswerValidationError)
    assert isinstance(outcomes[1], RequestError)
    assert not isinstance(outcomes[2], Exception)
    assert outcomes[2].value == 7


@pytest.mark.parametrize("index", [0, 2, -1])
def test_an_outcome_nobody_awaits_is_a_fault_of_the_service(index: int) -> None:
    batch = Batch([Request("a"), Request("b")])
    batch.read(answered(0, "x"))
    with pytest.raises(InternalServiceError, match=f"request {index}, which awaits none"):
        batch.read(answered(index, "again"))


def test_a_batch_that_ends_early_is_a_fault_of_the_service() -> None:
    batch = Batch([Request("a"), Request("b"), Request("c")])
    batch.read(answered(1, "x"))
    with pytest.raises(InternalServiceError, match=r"without outcomes for requests \[0, 2\]"):
        batch.check_complete()


def test_a_finish_reason_of_a_newer_server_is_an_outcome_of_its_request_alone() -> None:
    batch = Batch([Request("a")])
    response = pb.GenerateBatchResponse(index=0, response=pb.GenerateResponse(text="x"))
    outcome = batch.read(response).outcome
    assert isinstance(outcome, InternalServiceError)
    assert "finish reason 0, unknown to this client" in str(outcome)


def test_any_iterable_of_requests_is_a_batch() -> None:
    requests = [Request("a"), Request("b")]
    assert checked_requests(request for request in requests) == tuple(requests)


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
