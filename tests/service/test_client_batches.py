"""A batch of any length: as many at once as the server accepts; no finished answer is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guided.client.retry
from guided.client import Answer, AsyncClient, Client, Request
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    InvalidConstraintError,
    RequestError,
    ServiceUnavailableError,
)
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_client_retries import CROWDED, free_port
from tests.service.test_supervision import eventually, raw


def texts_of(outcomes: list[Answer[str] | GuidedError]) -> list[str]:
    return [one.text if isinstance(one, Answer) else f"! {one}" for one in outcomes]


def test_a_batch_longer_than_a_server_takes_at_once_is_answered_in_order(echo: Client) -> None:
    texts = [f"{number}" for number in range(500)]
    assert texts_of(echo.batch([raw(text) for text in texts])) == texts


def test_a_request_that_no_message_can_carry_costs_no_other_its_answer(
    echo: Client, echo_server: ServerProcess
) -> None:
    texts = ["a", "\ud800", "b", "\ud800", "\ud800"]

    async def talk() -> list[Answer[str] | GuidedError]:
        async with AsyncClient(echo_server.address, concurrency=1) as client:
            return await client.batch(map(raw, texts))

    for outcomes in (echo.batch([*map(raw, texts)]), asyncio.run(talk())):
        assert texts_of([outcomes[0], outcomes[2]]) == ["a", "b"]
        for wrong in (outcomes[1], *outcomes[3:]):
            assert isinstance(wrong, RequestError)
            assert (wrong.field, len(wrong.request_id or "")) == ("prompt", 32)


def test_a_server_that_takes_less_narrows_the_window(tmp_path: Path) -> None:
    texts = [f"{number}" for number in range(200)]

    async def talk(address: str) -> None:
        async with AsyncClient(address) as client:
            assert texts_of(await client.batch(raw(text) for text in texts)) == texts

    with (
        serving(ECHO_SERVER, tmp_path / "log", CROWDED) as server,
        Client(server.address) as client,
    ):
        assert texts_of(client.batch(raw(text) for text in texts)) == texts
        asyncio.run(talk(server.address))


def counted(read: list[int], prompt: str = "x") -> Iterator[Request[str]]:
    """Requests without end."""
    while True:
        read[0] += 1
        yield raw(prompt)


def test_an_iterator_without_end_is_read_as_there_is_room(
    echo: Client, echo_server: ServerProcess
) -> None:
    read = [0]
    completed = echo.with_options(concurrency=10).as_completed(counted(read))
    for number in range(100):
        assert not isinstance(next(completed).outcome, GuidedError)
        assert read[0] <= number + 11
    completed.close()
    eventually(lambda: echo.stats().running == 0)

    async def talk() -> None:
        read = [0]
        async with AsyncClient(echo_server.address, concurrency=10) as client:
            outcomes = client.as_completed(counted(read))
            async for one in outcomes:
                assert not isinstance(one.outcome, GuidedError)
                if one.index > 50:
                    break
            await outcomes.aclose()
            assert read[0] < 100

    asyncio.run(talk())


def test_what_fails_in_the_iterator_costs_no_answer(
    echo: Client, echo_server: ServerProcess
) -> None:
    def odd() -> Iterator[Any]:
        yield from map(raw, "ab")
        yield "a text"
        yield None
        yield raw("c")
        yield Request("x", max_tokens=0)

    async def talk() -> list[Answer[str] | GuidedError]:
        async with AsyncClient(echo_server.address, concurrency=2) as client:
            return await client.batch(odd())

    for outcomes in (echo.batch(odd()), asyncio.run(talk())):
        *told, last = outcomes
        assert texts_of(told) == [
            "a",
            "b",
            "! item 2 is not a guided.Request but 'a text'; pass a list of guided.Request",
            "! item 3 is not a guided.Request but None; pass a list of guided.Request",
            "c",
        ]
        assert isinstance(last, RequestError)
        assert str(last) == (
            "the iterator of requests ended with RequestError: max_tokens 0 is below 1; the "
            "requests after this one were not read; ask for them again"
        )
        assert isinstance(last.__cause__, RequestError)


def test_an_interrupt_in_the_iterator_cancels_what_runs(echo: Client) -> None:
    def interrupted() -> Iterator[Request[str]]:
        yield raw("wait")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        echo.batch(interrupted())
    eventually(lambda: echo.stats().running == 0)


def test_a_client_that_is_closed_ends_its_batches(echo: Client, echo_server: ServerProcess) -> None:
    client = Client(echo_server.address)
    completed = client.as_completed([raw("a"), raw("wait")])
    next(completed)
    client.close()
    with pytest.raises(RequestError, match="the client is closed; make another"):
        next(completed)

    async def talk() -> None:
        client = AsyncClient(echo_server.address)
        asking = asyncio.create_task(client.batch([raw("wait")]))
        await asyncio.sleep(0.3)
        await client.close()
        with pytest.raises(RequestError, match="the client is closed; make another"):
            await asking

    asyncio.run(talk())
    eventually(lambda: echo.stats().running == 0)


def test_a_deadline_is_the_outcome_of_the_request_that_missed_it(
    echo: Client, echo_server: ServerProcess
) -> None:
    requests = [raw("a"), raw("wait"), raw("refuse"), raw("b")]
    kinds = [Answer, DeadlineExceededError, InvalidConstraintError, Answer]
    assert [type(one) for one in echo.batch(requests, timeout=4.0)] == kinds

    async def talk() -> None:
        async with AsyncClient(echo_server.address) as client:
            assert [type(one) for one in await client.batch(requests, timeout=4.0)] == kinds

    asyncio.run(talk())
    eventually(lambda: echo.stats().running == 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_killed_engine_takes_along_what_it_ran_and_nothing_else(
    echo: Client, echo_server: ServerProcess, is_async: bool
) -> None:
    """Of sixty requests the first are answered, some run for ever, and the others follow."""
    requests = [raw("wait" if 20 <= number < 30 else f"{number}") for number in range(60)]
    outcomes: list[Answer[str] | GuidedError] = []

    def ask() -> None:
        if is_async:
            outcomes.extend(asyncio.run(ask_at_once()))
        else:
            outcomes.extend(echo.with_options(concurrency=10).batch(requests))

    async def ask_at_once() -> list[Answer[str] | GuidedError]:
        async with AsyncClient(echo_server.address, concurrency=10) as client:
            return await client.batch(requests)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: echo.stats().running == 10)
    os.kill(echo_server.engine_process_id(), signal.SIGKILL)
    asking.join(60)
    assert len(outcomes) == 60
    lost = [number for number, one in enumerate(outcomes) if isinstance(one, GuidedError)]
    assert lost == list(range(20, 30))
    for number in lost:
        assert isinstance(outcomes[number], ServiceUnavailableError)
        assert "killed by signal 9 while the request ran" in str(outcomes[number])
    assert texts_of(outcomes)[30:] == [f"{number}" for number in range(30, 60)]


def test_a_batch_outlives_its_server(tmp_path: Path) -> None:
    """The server is killed midway and started again: everything is answered."""
    port = {"port": str(free_port())}
    texts = [f"{number}" for number in range(300)]
    with (
        serving(ECHO_SERVER, tmp_path / "log", port) as server,
        Client(server.address, concurrency=20) as client,
    ):
        completed = client.as_completed(raw(text, 30) for text in texts)
        outcomes = [next(completed) for _ in range(50)]
        server.process.kill()
        server.wait(10)
        with serving(ECHO_SERVER, tmp_path / "again", port):
            outcomes += completed
    outcomes.sort(key=lambda one: one.index)
    assert texts_of([one.outcome for one in outcomes]) == texts


def test_a_server_that_does_not_come_back_leaves_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guided.client.retry, "_RESTART_SECONDS", 1.0)
    requests = [raw(f"{number}", 30) for number in range(1000)]
    began = time.monotonic()
    with (
        serving(ECHO_SERVER, tmp_path / "log") as server,
        Client(server.address, concurrency=20) as client,
    ):
        done: list[int] = []

        def listed() -> Iterator[Request[str]]:
            for index, request in enumerate(requests):
                if index == 100:  # some of those before it are answered, others run
                    server.process.kill()
                    server.wait(10)
                yield request

        outcomes = client.batch(listed())
        done = [index for index, one in enumerate(outcomes) if isinstance(one, Answer)]
    assert 80 <= len(done) <= 100
    assert [outcomes[index].text for index in done] == [str(index) for index in done]  # type: ignore[union-attr]
    remaining = [one for one in outcomes if isinstance(one, ServiceUnavailableError)]
    assert len(outcomes) == 1000 == len(done) + len(remaining)
    assert time.monotonic() - began < 60
