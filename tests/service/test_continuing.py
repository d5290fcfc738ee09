"""Messages that are continued, by the client and over HTTP: what is sent, and what is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from guided import testing
from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.errors import AnswerValidationError, RequestError
from guided.spec import Message
from tests.service.test_http_fields import asked


class Person(BaseModel):
    name: str
    tags: list[str]

    @field_validator("name")
    @classmethod
    def is_long(cls, name: str) -> str:
        if len(name) < 3:
            raise ValueError(f"{name} is short")
        return name


BEGUN = Message("assistant", '{"name":"A')
TALK = (Message("user", "Who?"), BEGUN)
WHOLE = Person(name="Ada", tags=["x"])
REST = 'da","tags":["x"]}'


def test_the_value_is_read_from_message_and_answer(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(REST)
    answer = asking.generate(TALK, Person, continue_final_message=True)
    assert (answer.value, answer.text, answer.begun) == (WHOLE, REST, BEGUN.content)
    assert answer.message == Message("assistant", BEGUN.content + REST)
    (request,) = model_free.requests
    assert (request.prompt, request.continue_final_message) == (TALK, True)


def test_a_text_is_what_follows(model_free: testing.Server, asking: Client) -> None:
    model_free.reply(" Oslo.")
    answer = asking.generate(
        [Message("user", "Where?"), Message("assistant", "In")], continue_final_message=True
    )
    assert (answer.value, answer.message.content) == (" Oslo.", "In Oslo.")


def test_values_and_partials_begin_with_the_message(
    model_free: testing.Server, asking: Client
) -> None:
    begun = Message("assistant", '{"name":"Ada","tags":["x","')
    model_free.reply('y"]}', 'y"]}', 'y"]}')
    options: dict[str, Any] = {"continue_final_message": True}
    with asking.stream((TALK[0], begun), Person, **options) as stream:
        found = [(event.pointer, event.value) for event in stream.values()]
    assert found[:3] == [("/name", "Ada"), ("/tags/0", "x"), ("/tags/1", "y")]
    assert found[-1] == ("", {"name": "Ada", "tags": ["x", "y"]})
    with asking.stream((TALK[0], begun), Person, **options) as stream:
        first, *_, last = stream.partials()
    assert (first.name, first.tags[0]) == ("Ada", "x")
    assert last == stream.answer.value == Person(name="Ada", tags=["x", "y"])

    async def ask() -> None:
        async with (
            AsyncClient(model_free.address) as client,
            client.stream((TALK[0], begun), Person, **options) as pieces,
        ):
            pointers = [event.pointer async for event in pieces.values()]
            assert pointers[0] == "/name"

    asyncio.run(ask())


def test_a_refused_answer_is_told_whole_and_begun_again(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply('","tags":[]}', REST)
    answer = asking.generate(TALK, Person, continue_final_message=True, max_retries=1)
    assert (answer.value, answer.tries) == (WHOLE, 2)
    prompt = model_free.requests[1].prompt
    assert isinstance(prompt, tuple)
    assert prompt[:2] == (TALK[0], Message("assistant", '{"name":"A","tags":[]}'))
    assert prompt[2].role == "user"
    assert prompt[3] == BEGUN
    model_free.reply('","tags":[]}')
    with pytest.raises(AnswerValidationError) as refused:
        asking.generate(TALK, Person, continue_final_message=True)
    assert refused.value.text == '{"name":"A","tags":[]}'


def test_a_message_that_does_not_fit_is_refused_with_its_place(asking: Client) -> None:
    with pytest.raises(RequestError, match=r"'1' at character 8 \(byte 8\) may not come after"):
        asking.generate(
            (TALK[0], Message("assistant", '{"name":1')), Person, continue_final_message=True
        )


def test_a_server_without_a_model_fits_its_answers_to_the_message(asking: Client) -> None:
    answer = asking.generate(TALK, schema=Person.model_json_schema(), continue_final_message=True)
    assert answer.text == '","tags":[]}'
    drawn = asking.generate(
        TALK, schema=Person.model_json_schema(), continue_final_message=True, temperature=1, seed=5
    )
    assert drawn.value["name"].startswith("A")


def test_options_are_checked_before_anything_is_sent() -> None:
    refused: tuple[tuple[Any, dict[str, Any]], ...] = (
        ("Who?", {"continue_final_message": True}),
        (RawPrompt("Who"), {"continue_final_message": True}),
        ("Who?", {"heal": True}),
    )
    for prompt, options in refused:
        with pytest.raises(RequestError):
            Request(prompt, **options)
    assert Request(RawPrompt("Who"), heal=True).specification.heal


TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Ada"},
]


@pytest.mark.parametrize(
    ("fields", "continues", "heal"),
    [
        ({}, False, None),
        ({"add_generation_prompt": True}, False, None),
        ({"continue_final_message": True}, True, None),
        ({"continue_final_message": True, "add_generation_prompt": False}, True, None),
        ({"continue_final_message": True, "heal": False}, True, False),
    ],
)
def test_over_http_the_fields_are_those_of_vllm(
    fields: dict[str, Any], continues: bool, heal: bool | None
) -> None:
    request = asked("chat", messages=TURNS, **fields).request
    assert (request.continue_final_message, request.heal) == (continues, heal)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        (
            {"add_generation_prompt": True, "continue_final_message": True},
            "add_generation_prompt",
            "add_generation_prompt begins a new turn, and continue_final_message none",
        ),
        (
            {"add_generation_prompt": False},
            "add_generation_prompt",
            "without a new turn there has to be a message to continue",
        ),
        ({"heal": True}, "heal", "heal is for texts that are continued"),
        (
            {"continue_final_message": True, "messages": TURNS[:1]},
            "continue_final_message",
            "the last message has the role 'user'",
        ),
        (
            {"continue_final_message": True, "reasoning_effort": "low"},
            "reasoning_effort",
            "a message that has begun comes after its thoughts",
        ),
    ],
)
def test_over_http_contradictions_are_refused(
    fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(RequestError, match=f"^{message}") as refused:
        asked("chat", **({"messages": TURNS} | fields))
    assert refused.value.field == field
