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
        *(
            (
                f"{host}:{port}",
                f"the port '{port}' of the address is not a number from 1 to 65535; a server that "
                "was told no other has 50051",
            )
            for host, port in (
                *(("localhost", port) for port in ("99999", "-1", "0", "http", "5_0", "٣")),
                *(("[::1]", "65536"), ("dns:///host", "65536"), ("dns:host", "1.5")),
            )
        ),
        ("dns:///h", "an address is host:port, not a host alone; write 'dns:///h:50051'"),
        ("dns:h", "an address is host:port, not a host alone; write 'dns:h:50051'"),
        ("dns://8.8.8.8/", "an address is host:port, not a host alone"),
        ("h:1,h:2", "an address is that of one server; make a client for each"),
        ("dns:///h:1,h:2", "an address is that of one server; make a client for each"),
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
        "dns://8.8.8.8/host:1",
        "dns:host:1",
        "localhost:65535",
        "ipv4:1.2.3.4:5,1.2.3.5:5",
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


@pytest.mark.parametrize(
    ("timeout", "text"),
    [
        (float("nan"), "timeout nan is not a number; pass seconds"),
        (10**400, "timeout is above 1e308, beyond all numbers; pass math.inf"),
        (-1, "timeout -1 is below 0"),
        (None, "timeout None is not a number; pass seconds"),
    ],
)
def test_no_wait_is_of_no_time(timeout: Any, text: str) -> None:
    asks: list[Callable[[], object]] = [lambda: wait_until_serving("localhost:1", timeout)]
    if timeout is not None:
        asks += [
            lambda: Client("localhost:1", timeout=timeout),
            lambda: Client("localhost:1").generate("x", timeout=timeout),
        ]
    for ask in asks:
        with pytest.raises(RequestError) as caught:
            ask()
        assert (str(caught.value), caught.value.field) == (text, "timeout")


@pytest.mark.parametrize("tokens", [5, "5", b"5", None])
def test_tokens_are_a_collection_of_integers(tokens: Any) -> None:
    with Client("localhost:1") as client, pytest.raises(RequestError) as caught:
        client.detokenize(tokens)
    assert str(caught.value) == (
        f"tokens is {tokens!r}, which is not a collection of integers; pass a list of tokens"
    )
    assert caught.value.field == "tokens"


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
