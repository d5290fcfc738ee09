"""The security settings of a client are checked before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from guided.bearer import new_token
from guided.client import AsyncClient, Client, Request, Tls
from guided.client.security import Endpoint
from guided.errors import RequestError, ServiceError
from guided.spec import Regex

TOKEN = new_token()


@pytest.mark.parametrize("address", ["model.example:443", "10.0.0.7:50051", "dns:///a.example:1"])
def test_a_token_does_not_leave_the_machine_unencrypted(address: str) -> None:
    with pytest.raises(RequestError) as caught:
        Client(address, token=TOKEN)
    assert str(caught.value) == (
        f"the token would travel to {address} unencrypted; pass tls=True or "
        "guided.Tls(ca=...), or insecure=True where something else encrypts it"
    )
    assert Endpoint.of(address, token=TOKEN, insecure=True).token == TOKEN
    assert Endpoint.of(address, True, TOKEN).credentials is not None
    assert Endpoint.of(address).credentials is None


@pytest.mark.parametrize(
    "address",
    ["localhost:50051", "127.0.0.1:1", "[::1]:1", "unix:/tmp/socket", "dns:///127.8.0.1:1"],
)
def test_on_this_machine_it_may(address: str) -> None:
    assert Endpoint.of(address, token=TOKEN).token == TOKEN


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"token": "short"}, "the token has 5 characters"),
        ({"tls": "yes"}, "tls is 'yes'; pass True or guided.Tls"),
        ({"tls": Tls(ca="none.pem")}, "none.pem cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        Client("localhost:1", **options)


def test_a_certificate_comes_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="a certificate and its key only go together"):
        Tls(cert=tmp_path / "cert.pem")


class Refusing(grpc.GenericRpcHandler):
    """Refuses every call, and keeps what its metadata shows."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def service(self, call: grpc.HandlerCallDetails) -> None:
        self.shown.append(dict(call.invocation_metadata).get("authorization"))


@pytest.fixture
def refusing() -> Iterator[tuple[Refusing, str]]:
    handler, server = Refusing(), grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield handler, f"localhost:{port}"
    server.stop(None)


def _questions(client: Any) -> list[Callable[[], Any]]:
    """Every call of a client but streams and batches."""
    grammars, yes = client.grammars, Regex("yes")
    return [
        *(client.model, client.models, client.stats, grammars.list),
        partial(client.generate, "x"),
        partial(grammars.check, grammar=yes),
        partial(grammars.compile, grammar=yes),
        partial(grammars.validate, "yes", grammar=yes),
        partial(grammars.delete, "id"),
    ]


@pytest.mark.parametrize("token", [TOKEN, None], ids=["token", "none"])
def test_each_call_shows_the_token(refusing: tuple[Refusing, str], token: str | None) -> None:
    handler, address = refusing
    with Client(address, token=token, retries=0) as client:
        for ask in _questions(client):
            with pytest.raises(ServiceError):
                ask()
        with pytest.raises(ServiceError):
            next(client.stream("x"))
        assert isinstance(client.batch([Request("x")])[0], ServiceError)
    assert handler.shown == [token and f"Bearer {token}"] * 11


@pytest.mark.parametrize("token", [TOKEN, None], ids=["token", "none"])
def test_each_asynchronous_call_shows_the_token(
    refusing: tuple[Refusing, str], token: str | None
) -> None:
    handler, address = refusing

    async def call_all() -> None:
        async with AsyncClient(address, token=token, retries=0) as client:
            for ask in _questions(client):
                with pytest.raises(ServiceError):
                    await ask()
            with pytest.raises(ServiceError):
                await anext(client.stream("x"))
            assert isinstance((await client.batch([Request("x")]))[0], ServiceError)

    asyncio.run(call_all())
    assert handler.shown == [token and f"Bearer {token}"] * 11
