"""Prompts of tokens: what is one, and what goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from guided.errors import RequestError
from guided.spec import GenerationRequest, JsonSchema, Message, TokenId, TokenPrompt, Tool
from guided.spec.tools import ToolUse

HELLO: Any = TokenPrompt([TokenId(7), TokenId(300)])


def test_a_list_is_kept_as_a_tuple_and_cannot_change_later() -> None:
    given = [TokenId(1), TokenId(2)]
    prompt = TokenPrompt(given)
    given.append(TokenId(3))
    assert (prompt.tokens, len(prompt)) == ((1, 2), 2)
    assert prompt == TokenPrompt((TokenId(1), TokenId(2)))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("12", "the prompt is '12', which is no list of tokens"),
        (b"12", "the prompt is b'12', which is no list of tokens"),
        ({1, 2}, "the prompt is {1, 2}, which is no list of tokens"),
        (5, "the prompt is 5, which is no list of tokens"),
        ([1, "2"], "token 1 of the prompt is '2', which is no token"),
        ([1.0], "token 0 of the prompt is 1.0, which is no token"),
        ([True], "token 0 of the prompt is True, which is no token"),
        ([1 << 31], "token 0 of the prompt is 2147483648, which is no token"),
        ([0, -1], "token 1 of the prompt is -1, which is no token"),
    ],
)
def test_what_is_no_list_of_tokens_is_refused(tokens: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        TokenPrompt(tokens)
    assert (caught.value.message, caught.value.field) == (message, "prompt")


def test_a_token_that_the_model_does_not_have_is_named() -> None:
    assert HELLO.read_by(301) == (7, 300)
    with pytest.raises(RequestError) as caught:
        HELLO.read_by(300)
    assert caught.value.message == (
        "token 1 of the prompt is 300, and those of this model are 0 to 299"
    )
    assert caught.value.hint == "make the tokens with the tokenizer of this model"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"heal": True}, "heal"),
        ({"allow_special_tokens": False}, "allow_special_tokens"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"show_schema": True, "constraint": JsonSchema("{}")}, "show_schema"),
        ({"tools": ToolUse((Tool("f", "{}"),))}, "tools"),
    ],
)
def test_what_needs_a_text_or_messages_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        GenerationRequest(HELLO, **options)
    assert caught.value.field == field


def test_an_empty_list_is_an_empty_prompt() -> None:
    with pytest.raises(RequestError, match="the prompt is empty"):
        GenerationRequest(TokenPrompt([]))


def test_it_is_neither_a_text_nor_a_conversation() -> None:
    assert GenerationRequest(HELLO) != GenerationRequest((Message("user", "a"),))
    assert GenerationRequest(HELLO).begun == ""
