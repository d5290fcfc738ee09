"""Calls that were turned away are made again; calls that may have been run are not."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    RequestCancelledError,
    RequestError,
    ServiceUnavailableError,
)
from tests.kit.effort import is_long
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually

CROWDED = {
    "max_requests_in_flight": "4",
    "max_batch_size": "4",
    "max_requests_queued": "4",
    "retry_after_seconds": "0.05",
}
"""Settings of a server that accepts eight requests at once and turns more away."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_call_may_take_as_long_as_it_likes(echo_server: ServerProcess) -> None:
    async def talk(timeout: float) -> str:
        async with AsyncClient(echo_server.address, timeout=timeout) as client:
            return (await client.generate(RawPrompt("x"), max_tokens=1)).text

    for timeout in (math.inf, 1e12):
        with Client(echo_server.address, timeout=timeout) as client:
            assert client.generate(RawPrompt("x"), max_tokens=1).text == "x"
        assert asyncio.run(talk(timeout)) == "x"


def test_two_hundred_callers_at_once_all_find_one_of_eight_places(tmp_path: Path) -> None:
    with (
        serving(ECHO_SERVER, tmp_path / "log", CROWDED) as server,
        Client(server.address) as client,
        ThreadPoolExecutor(200) as callers,
    ):
        texts = [f"{number}" for number in range(200)]
        answers = callers.map(
            lambda text: client.generate(RawPrompt(text), max_tokens=1).text, texts
        )
        assert [*answers] == texts


def test_hundreds_of_calls_of_fifty_clients_all_find_a_place(tmp_path: Path) -> None:
    settings = {"max_requests_queued": "100"}

    async def ask(client: AsyncClient, text: str) -> str:
        return (await client.generate(RawPrompt(text), max_tokens=1)).text

    async def talk(address: str) -> None:
        clients = [AsyncClient(address) for _ in range(50)]
        texts = [f"{number}" for number in range(2000 if is_long() else 500)]
        calls = (ask(clients[number % 50], text) for number, text in enumerate(texts))
        assert await asyncio.gather(*calls) == texts
        for client in clients:
            await client.close()

    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        asyncio.run(talk(server.address))


def test_calls_about_constraints_wait_for_an_engine_as_well(tmp_path: Path) -> None:
    settings = {"restart_backoff_seconds": "1", "retry_after_seconds": "0.05"}

    async def check(address: str) -> str:
        async with AsyncClient(address) as client:
            return (await client.grammars.check(schema="true")).shortest_answer

    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        os.kill(server.engine_process_id(), signal.SIGKILL)
        with Client(server.address) as client, ThreadPoolExecutor(1) as other:
            once = client.with_options(retries=0)
            with pytest.raises(ServiceUnavailableError, match="the engine ") as caught:
                eventually(lambda: not once.grammars.check(schema="true"))
            assert caught.value.request_id is None  # only requests for answers have one
            awaited = other.submit(lambda: asyncio.run(check(server.address)))
            assert client.grammars.check(schema="true").shortest_answer
            assert awaited.result()


def test_the_pause_that_a_server_asks_for_is_made(tmp_path: Path) -> None:
    settings = CROWDED | {"max_requests_in_flight": "1", "max_batch_size": "1"}
    settings |= {"max_requests_queued": "0", "retry_after_seconds": "1.5"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        stream = client.stream(RawPrompt("wait"))
        next(stream)
        began = time.monotonic()
        with ThreadPoolExecutor(1) as other:
            answer = other.submit(lambda: client.generate(RawPrompt("later"), max_tokens=1).text)
            eventually(lambda: _turned_away(server) >= 1)
            stream.close()
            assert answer.result() == "later"
        assert time.monotonic() - began > 1.5


def test_who_is_turned_away_to_the_end_learns_why_by_its_deadline(tmp_path: Path) -> None:
    settings = CROWDED | {"max_requests_in_flight": "1", "max_batch_size": "1"}
    settings |= {"max_requests_queued": "0"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        stream = client.stream(RawPrompt("wait"))
        next(stream)
        began = time.monotonic()
        # Whether the last attempt is turned away or still under way at the deadline is a race.
        late = (ServiceUnavailableError, DeadlineExceededError)
        with pytest.raises(late, match="1 requests are in flight") as caught:
            client.generate("late", timeout=1.0)
        assert time.monotonic() - began < 10
        assert caught.value.request_id
        with pytest.raises(ServiceUnavailableError):
            client.with_options(retries=0).generate("at once")

        async def give_up() -> None:
            async with AsyncClient(server.address) as other:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await other.generate("cancelled while it pauses")
                with pytest.raises(ServiceUnavailableError):
                    await other.with_options(retries=0).generate("at once")

        asyncio.run(give_up())
        stream.close()


def test_a_stream_is_begun_again_until_its_first_text(tmp_path: Path) -> None:
    settings = CROWDED | {"max_requests_in_flight": "1", "max_batch_size": "1"}
    settings |= {"max_requests_queued": "0"}

    async def read(address: str) -> str:
        async with (
            AsyncClient(address) as client,
            client.stream(RawPrompt("after it"), max_tokens=2) as stream,
        ):
            return "".join([text async for text in stream])

    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
        ThreadPoolExecutor(2) as others,
    ):
        first = client.stream(RawPrompt("wait"))
        next(first)
        second = client.stream(RawPrompt("after it"), max_tokens=2)
        blocking = others.submit(lambda: "".join(second))
        other = others.submit(lambda: asyncio.run(read(server.address)))
        eventually(lambda: _turned_away(server) >= 2)
        first.close()
        assert (blocking.result(), other.result()) == ("after it", "after it")
        closed = client.stream(RawPrompt("wait"))
        closed.close()
        with pytest.raises(RequestCancelledError):
            next(closed)


def test_calls_wait_for_a_server_that_restarts(tmp_path: Path) -> None:
    port = {"port": str(free_port())}
    with serving(ECHO_SERVER, tmp_path / "log", port) as server, Client(server.address) as client:
        assert client.generate("before", max_tokens=1).text == "before"
        begun = client.stream(RawPrompt("wait"), timeout=60)
        assert next(begun)
        server.process.kill()
        server.wait(10)
        # The part already read cannot be taken back, so the stream does not start again.
        with pytest.raises(ServiceUnavailableError):
            list(begun)
        with ThreadPoolExecutor(1) as other:
            late = other.submit(lambda: client.generate("after", max_tokens=1).text)
            time.sleep(0.5)
            with serving(ECHO_SERVER, tmp_path / "again", port):
                assert late.result() == "after"


def test_a_call_whose_connection_broke_is_made_again(tmp_path: Path) -> None:
    port = {"port": str(free_port())}
    with (
        serving(ECHO_SERVER, tmp_path / "log", port) as server,
        Client(server.address) as client,
        ThreadPoolExecutor(1) as other,
    ):
        running = other.submit(lambda: client.generate(RawPrompt("slow"), max_tokens=1000).text)
        eventually(lambda: client.stats().running == 1)
        server.process.kill()
        server.wait(10)
        with serving(ECHO_SERVER, tmp_path / "again", port):
            assert running.result() == "slow"


def test_a_request_that_takes_its_server_along_is_made_three_times_at_most(
    tmp_path: Path,
) -> None:
    """Each server is killed while it runs the request; a fourth never gets it."""
    port = {"port": str(free_port())}
    with Client(f"127.0.0.1:{port['port']}") as client, ThreadPoolExecutor(1) as other:
        failed = None
        for life in range(3):
            with serving(ECHO_SERVER, tmp_path / f"log{life}", port) as server:
                if failed is None:
                    client.generate("x", max_tokens=1)
                    failed = other.submit(_error_of, client)
                with Client(server.address) as watching:
                    eventually(lambda on=watching: on.stats().running == 1)  # type: ignore[misc]
                server.process.kill()
                server.wait(10)
        assert failed is not None
        with serving(ECHO_SERVER, tmp_path / "last", port), Client(server.address) as watching:
            assert isinstance(failed.result(), ServiceUnavailableError)
            eventually(lambda: watching.stats().running == 0)


def _turned_away(server: ServerProcess) -> int:
    return server.log.read_text().count("status=RESOURCE_EXHAUSTED")


def _error_of(client: Client) -> GuidedError | None:
    try:
        client.generate(RawPrompt("wait"))
    except GuidedError as error:
        return error
    return None


def test_a_wrong_address_is_told_within_seconds() -> None:
    began = time.monotonic()
    with Client(f"127.0.0.1:{free_port()}") as client:
        with pytest.raises(ServiceUnavailableError, match="check the address"):
            client.generate("anyone there?")
        outcomes = client.batch([Request("anyone there?")] * 300)
    assert [type(outcome) for outcome in outcomes] == [ServiceUnavailableError] * 300
    assert time.monotonic() - began < 30


# Terms


def test_clients_with_other_terms_share_a_connection_and_its_end(
    echo: Client, echo_server: ServerProcess
) -> None:
    quick = echo.with_options(timeout=0.3, retries=0)
    with pytest.raises(DeadlineExceededError):
        quick.generate(RawPrompt("wait"))
    assert echo.generate(RawPrompt("slow"), max_tokens=500).text == "slow"
    assert quick.generate(RawPrompt("slow"), max_tokens=500, timeout=30).text == "slow"
    assert quick.with_options(timeout=30).generate(RawPrompt("slow"), max_tokens=500)
    connections = _connections_to(echo_server)
    echo.with_options(timeout=9).generate("x", max_tokens=1)
    assert _connections_to(echo_server) == connections
    quick.close()
    with pytest.raises(RequestError, match="the client is closed; make another"):
        echo.generate("x")

    async def talk() -> None:
        async with AsyncClient(echo_server.address) as client:
            with pytest.raises(DeadlineExceededError):
                await client.with_options(timeout=0.3).generate(RawPrompt("wait"))
            assert (await client.generate("x", max_tokens=1)).text == "x"

    asyncio.run(talk())


def _connections_to(server: ServerProcess) -> int:
    port = f":{int(server.address.rpartition(':')[2]):04X} "
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return sum(port in line.split(maxsplit=2)[2][:24] for line in lines)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"timeout": "10"}, "timeout '10' is not a number; pass seconds"),
        ({"timeout": -1}, "timeout -1 is below 0"),
        ({"retries": -1}, "retries -1 is below 0"),
        ({"retries": float("nan")}, "retries nan is not a number; pass how often"),
        ({"concurrency": 0}, "concurrency 0 is not a whole number of at least 1"),
        ({"concurrency": 1.5}, "concurrency 1.5 is not a whole number of at least 1"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused(terms: dict[str, object], text: str) -> None:
    with Client("127.0.0.1:1") as client:
        for make in (lambda **given: Client("127.0.0.1:1", **given), client.with_options):
            with pytest.raises(RequestError) as caught:
                make(**terms)  # type: ignore[arg-type]
            assert (str(caught.value), caught.value.field) == (text, next(iter(terms)))


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_client_that_is_closed_while_a_call_pauses_makes_no_other(
    tmp_path: Path, is_stream: bool
) -> None:
    settings = CROWDED | {"max_requests_in_flight": "1", "max_batch_size": "1"}
    settings |= {"max_requests_queued": "0", "retry_after_seconds": "1"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        client, holder = Client(server.address), Client(server.address)
        held = holder.stream(RawPrompt("wait"))
        assert next(held)
        errors: list[GuidedError | None] = []
        call = _error_of_stream if is_stream else _error_of
        pausing = threading.Thread(target=lambda: errors.append(call(client)))
        pausing.start()
        eventually(lambda: _turned_away(server) >= 1)
        client.close()
        pausing.join(20)
        (error,) = errors
        # The latter where the machine was so slow that the call was still under way.
        assert isinstance(error, RequestError | RequestCancelledError)
        holder.close()


def test_what_the_engine_was_running_when_it_was_killed_is_run_once(
    echo: Client, echo_server: ServerProcess
) -> None:
    with ThreadPoolExecutor(1) as other:
        running = other.submit(_error_of, echo)
        eventually(lambda: echo.stats().running == 1)
        os.kill(echo_server.engine_process_id(), signal.SIGKILL)
        error = running.result()
    assert isinstance(error, ServiceUnavailableError)
    assert "killed by signal 9 while the request ran" in str(error)
    # The next engine takes it as soon as it is ready.
    assert echo.generate("again", max_tokens=1).text == "again"
    assert echo.stats().running == 0


def _error_of_stream(client: Client) -> GuidedError | None:
    try:
        list(client.stream(RawPrompt("wait")))
    except GuidedError as error:
        return error
    return None
