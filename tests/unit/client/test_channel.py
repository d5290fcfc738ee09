"""The connection settings of a client are checked before anything is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guided.client import AsyncClient, Client, wait_until_serving
from guided.client.security import checked_address
from guided.errors import RequestError


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
