"""Requests that name the model that should answer."""

from __future__ import annotations

import asyncio
import re

import pytest

from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.errors import GuidedError, UnknownModelError
from tests.service.server_process import ServerProcess

UNKNOWN = "model is 'other', but the server has 'echo'; name one of these, or leave model out"


@pytest.fixture
def asking(shared_echo_server: ServerProcess) -> Client:
    return Client(shared_echo_server.address)


def test_its_own_model_answers_by_its_name_and_without(asking: Client) -> None:
    for name in ("", "echo"):
        assert asking.generate(RawPrompt("hello"), max_tokens=5, model=name).text == "hello"


def test_another_one_is_not_found(asking: Client) -> None:
    with pytest.raises(UnknownModelError, match=UNKNOWN) as caught:
        asking.generate(RawPrompt("hello"), max_tokens=5, model="other")
    assert caught.value.field == "model"
    with pytest.raises(UnknownModelError), asking.stream(RawPrompt("a"), model="other") as stream:
        list(stream)


def test_an_item_of_a_batch_is_told_by_itself(asking: Client) -> None:
    requests = [Request(RawPrompt("hello"), max_tokens=5, model=name) for name in ("echo", "other")]
    said = {each.index: each.outcome for each in asking.as_completed(requests)}
    assert not isinstance(said[0], GuidedError)
    assert isinstance(said[1], UnknownModelError)


def test_constraints_are_those_of_a_model(asking: Client) -> None:
    pattern = re.compile("[0-9]+")
    assert asking.grammars.check(grammar=pattern, model="echo") is not None
    for ask in (asking.grammars.check, asking.grammars.compile):
        with pytest.raises(UnknownModelError, match=UNKNOWN):
            ask(grammar=pattern, model="other")
    with pytest.raises(UnknownModelError, match=UNKNOWN):
        asking.grammars.validate("1", grammar=pattern, model="other")


def test_tokens_are_those_of_a_model(asking: Client) -> None:
    assert asking.detokenize([104, 105], model="echo") == b"hi"
    for ask in (
        lambda: asking.tokenize(RawPrompt("x"), model="other"),
        lambda: asking.detokenize([5], model="other"),
    ):
        with pytest.raises(UnknownModelError, match=UNKNOWN) as caught:
            ask()
        assert caught.value.field == "model"


def test_both_clients_list_the_models(asking: Client, shared_echo_server: ServerProcess) -> None:
    async def listed() -> list[str]:
        async with AsyncClient(shared_echo_server.address) as client:
            return [each.name for each in await client.models()]

    assert asking.models() == [asking.model()]
    assert asyncio.run(listed()) == ["echo"]
