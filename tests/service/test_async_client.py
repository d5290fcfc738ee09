"""An asyncio client belongs to the event loop that uses it, wherever it was made."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress

import pytest

from guided.client import AsyncClient, AsyncStream, RawPrompt
from guided.errors import RequestError
from tests.service.server_process import ServerProcess


async def said(client: AsyncClient, text: str) -> str:
    return (await client.generate(RawPrompt(text), max_tokens=9)).text


def test_a_client_may_be_made_before_a_loop_runs(shared_echo_server: ServerProcess) -> None:
    """As in a module that a web server imports; in a thread there is not even a current loop."""
    made: list[AsyncClient] = []
    thread = threading.Thread(target=lambda: made.append(AsyncClient(shared_echo_server.address)))
    thread.start()
    thread.join()
    (client,) = made

    async def talk() -> None:
        grammars = client.grammars
        async with client:
            assert await said(client, "a") == "a"
            async with client.stream(RawPrompt("b"), max_tokens=9) as stream:
                assert [text async for text in stream] == ["b"]
            assert await grammars.list() == []

    asyncio.run(talk())


def test_a_client_outlives_its_loop(shared_echo_server: ServerProcess) -> None:
    client = AsyncClient(shared_echo_server.address)
    quick = client.with_options(timeout=30)
    for one in (client, quick, client):
        assert asyncio.run(said(one, "a")) == "a"
    asyncio.run(client.close())
    with pytest.raises(RequestError, match="the client is closed; make another"):
        asyncio.run(said(quick, "a"))


def test_a_client_that_was_never_used_can_be_closed(shared_echo_server: ServerProcess) -> None:
    client = AsyncClient(shared_echo_server.address)
    asyncio.run(client.close())
    asyncio.run(client.close())
    with pytest.raises(RequestError, match="the client is closed; make another"):
        asyncio.run(said(client, "a"))


def test_a_client_is_refused_to_a_loop_beside_its_own(shared_echo_server: ServerProcess) -> None:
    client = AsyncClient(shared_echo_server.address)
    refusal = "an AsyncClient is used in two event loops, .*; make a client for each"

    def elsewhere() -> None:
        with pytest.raises(RequestError, match=refusal):
            asyncio.run(said(client, "b"))

    async def talk() -> None:
        assert await said(client, "a") == "a"
        await asyncio.to_thread(elsewhere)
        assert await said(client, "c") == "c"  # it is not closed
        # Whichever loop closes it.
        await asyncio.to_thread(lambda: asyncio.run(client.close()))
        with pytest.raises(RequestError, match="the client is closed; make another"):
            await said(client, "d")

    asyncio.run(talk())


def test_a_client_without_a_loop_says_what_it_needs() -> None:
    client = AsyncClient("localhost:1")
    with pytest.raises(RequestError, match="where no event loop runs; call it in a coroutine"):
        client.stream("x")


async def _is_cancelled(client: AsyncClient, at_least: int) -> bool:
    for _ in range(100):
        gc.collect()
        stats = await client.stats()
        if stats.running == 0 and stats.cancelled >= at_least:
            return True
        await asyncio.sleep(0.1)
    return False


def test_a_stream_that_is_dropped_is_cancelled(echo_server: ServerProcess) -> None:
    prompt, budget = RawPrompt("wait"), 10**6

    async def left(client: AsyncClient) -> None:
        async for _ in client.stream(prompt, max_tokens=budget):
            break

    async def broken(client: AsyncClient) -> None:
        async for _ in client.stream(prompt, max_tokens=budget):
            raise KeyError

    async def unread(client: AsyncClient) -> None:
        stream = client.stream(prompt, max_tokens=budget)
        while (await client.stats()).running == 0:
            await asyncio.sleep(0.05)
        del stream

    async def talk() -> None:
        async with AsyncClient(echo_server.address) as client:
            for number, drop in enumerate((left, broken, unread), start=1):
                with suppress(KeyError):
                    await drop(client)
                assert await _is_cancelled(client, number), drop.__name__

    asyncio.run(talk())


def test_a_stream_that_outlives_its_loop_is_dropped_quietly(
    shared_echo_server: ServerProcess,
) -> None:
    async def begun() -> AsyncStream[object]:
        stream = AsyncClient(shared_echo_server.address).stream(RawPrompt("wait"))
        await anext(stream)
        return stream

    stream = asyncio.run(begun())
    del stream
    gc.collect()
