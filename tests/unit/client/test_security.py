"""The security settings of a client are checked before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guided.bearer import new_token
from guided.client import Client, Tls
from guided.client.security import Endpoint
from guided.errors import RequestError

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


def test_a_token_joins_the_metadata_of_each_call() -> None:
    class Channel:
        def unary_unary(self, name: str) -> Any:
            return lambda message, **options: (name, message, options)

    shown = Endpoint.of("localhost:1", token=TOKEN).authorized(Channel())
    header = ("authorization", f"Bearer {TOKEN}")
    assert shown.unary_unary("m")(1, timeout=2) == ("m", 1, {"timeout": 2, "metadata": (header,)})
    assert shown.unary_unary("m")(1, metadata=[("a", "b")])[2] == {"metadata": (("a", "b"), header)}


def test_a_token_joins_the_metadata_of_a_call_that_is_begun() -> None:
    class Method:
        def future(self, message: int, **options: Any) -> Any:
            return message, options

    class Channel:
        def unary_unary(self, _: str) -> Method:
            return Method()

    shown = Endpoint.of("localhost:1", token=TOKEN).authorized(Channel())
    header = ("authorization", f"Bearer {TOKEN}")
    assert shown.unary_unary("m").future(1, timeout=2) == (1, {"timeout": 2, "metadata": (header,)})
