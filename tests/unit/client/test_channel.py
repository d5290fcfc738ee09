"""The connection settings of a client are checked before anything is sent."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from typing import Any

import pytest

from guided.client import AsyncClient, Client, Request, wait_until_serving
from guided.client.security import checked_address
from guided.errors import RequestCancelledError, RequestError


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (
            "http://localhost:50051",
            "an address is host:port, without a scheme; write 'localhost:50051'",
        ),
        ("grpc://[::1]:1/", "an address is host:port, without a scheme; write '[::1]:1'"),
        ("localhost:8000/v1", "an address is host:port, without a path; write 'localhost:8000'"),
        ("/run/socket", "an address is host:port, without a path; write 'unix:/run/socket'"),
        ("ipv4:///1.2.3.4:5", "an address is host:port, without a scheme; write '1.2.3.4:5'"),
        ("localhost", "an address is host:port, not a host alone; write 'localhost:50051'"),
        ("localhost:", "an address is host:port, not a host alone; write 'localhost:50051'"),
        ("[::1]", "an address is host:port, not a host alone; write '[::1]:50051'"),
        ("fe80::1", "an address is host:port, not a host alone; write '[fe80::1]:50051'"),
        ("", "an address is host:port, not a host alone"),
        ("xds:///", "an address is host:port, without a scheme"),
        (50051, "50051 is not an address; pass host:port as a string"),
    ],
)
def test_an_address_that_would_be_misread_is_refused(address: Any, text: str) -> None:
    async def connect() -> None:
        AsyncClient(address)

    for attempt in (
        lambda: Client(address),
        lambda: wait_until_serving(address, 0.1),
        lambda: asyncio.run(connect()),
    ):
        with pytest.raises(RequestError) as caught:
            attempt()
        assert (str(caught.value), caught.value.field) == (text, "address")


@pytest.mark.parametrize(
    "address",
    [
        "localhost:50051",
        "[::1]:1",
        "dns:///host:1",
        "unix:///tmp/socket",
        "unix:socket",
        "unix-abstract:a/b",
        "ipv6:[::1]:5",
        "[fe80::1%eth0]:5",
    ],
)
def test_whatever_the_transport_reads_is_an_address(address: str) -> None:
    assert checked_address(address) == address


def test_a_timeout_that_is_no_number_is_refused() -> None:
    wrong: Any = "10"
    with pytest.raises(RequestError, match="timeout '10' is not a number; pass seconds"):
        Client("127.0.0.1:1", timeout=wrong)
    with (
        Client("127.0.0.1:1") as client,
        pytest.raises(RequestError, match="timeout '10' is not a number") as caught,
    ):
        client.generate("x", timeout=wrong)
    assert caught.value.field == "timeout"


class ClosedMeanwhile:
    """A method of a service whose client another thread closes between its check and the call."""

    def __init__(self, client: Client, method: Any) -> None:
        self._client = client
        self._method = method

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self._client.close()
        return self._method(*arguments, **options)

    def future(self, *arguments: Any, **options: Any) -> Any:
        self._client.close()
        return self._method.future(*arguments, **options)


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.generate("x"),
        lambda client: [*client.stream("x")],
        lambda client: client.batch([Request("x")]),
        lambda client: client.stats(),
    ],
    ids=["generate", "stream", "batch", "stats"],
)
def test_a_client_that_is_closed_meanwhile_says_so(
    ask: Callable[[Client], object], monkeypatch: pytest.MonkeyPatch, *, is_traced: bool
) -> None:
    monkeypatch.setattr("guided.client.tracing._is_loaded", lambda: is_traced)
    client = Client("localhost:1")
    generation, models = client._services.generation, client._services.models
    for service, name in (
        (generation, "Generate"),
        (generation, "GenerateStream"),
        (models, "GetStats"),
    ):
        setattr(service, name, ClosedMeanwhile(client, getattr(service, name)))
    told = "the client is closed; make another|the stream was closed"
    with pytest.raises((RequestError, RequestCancelledError), match=told):
        ask(client)


def test_an_asyncio_client_that_is_closed_meanwhile_says_so() -> None:
    """Whether a call has begun or not; and no call is left whose error nobody reads."""
    unread: list[dict[str, Any]] = []

    async def read(client: AsyncClient) -> list[str]:
        return [text async for text in client.stream("x")]

    async def talk(steps: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
        client = AsyncClient("localhost:1")
        asked = [
            asyncio.create_task(each)
            for each in (client.generate("x"), read(client), client.batch([Request("x")] * 3))
        ]
        for _ in range(steps):
            await asyncio.sleep(0)
        await client.close()
        for error in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(error, RequestError | RequestCancelledError), repr(error)
            assert re.search("the (client is|client was|stream was) closed", str(error))

    for steps in range(5):
        asyncio.run(talk(steps))
        gc.collect()
    assert unread == []
