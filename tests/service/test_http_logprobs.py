"""Log-probabilities in streams over HTTP: each token's comes once, with the text so far."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from guided.spec import FinishReason, GenerationResult, TokenId, TokenLogprobs, Usage
from guided.spec.tool_format import ToolFormat
from guided_service.call_reader import CallReader, ReaderOf
from guided_service.http.asked import Shown
from guided_service.http.chat_answer import ChatForm, ChatStyle

SHOWN = Shown("id", 0, "m")
CALLED = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'


def tokens_of(text: str) -> tuple[TokenLogprobs, ...]:
    """A token for each character."""
    return tuple(TokenLogprobs(TokenId(ord(one)), one.encode(), -1.0, -0.5) for one in text)


def form(*, calls_tools: bool = False, tells_logprobs: bool = True) -> ChatForm:
    def reader(form: ToolFormat) -> ReaderOf | None:
        return partial(CallReader, form) if calls_tools else None

    style = ChatStyle(
        reader,
        is_named=False,
        is_structured=False,
        tells_usage=False,
        tells_logprobs=tells_logprobs,
        tells_thoughts=True,
    )
    return ChatForm(style, SHOWN)


def answer(text: str, thought: str = "") -> GenerationResult:
    result = GenerationResult(text, (), FinishReason.STOP, Usage(), 1.0)
    tokens = tokens_of(thought + text)
    return replace(result, logprobs=tokens, reasoning=thought, reasoning_tokens=len(thought))


def choices_in(events: bytes) -> list[dict[str, Any]]:
    lines = [line for line in events.decode().split("\n\n") if line and "[DONE]" not in line]
    return [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]


def told_in(choices: list[dict[str, Any]]) -> list[str]:
    scored = [one["logprobs"]["content"] for one in choices if one["logprobs"] is not None]
    return [token["token"] for tokens in scored for token in tokens]


@given(
    st.sampled_from(["Yes.", f"Let me see. {CALLED}", CALLED, f"{CALLED}\n{CALLED}"]),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=40),
)
def test_each_token_is_told_once_however_the_text_comes(
    text: str, calls_tools: bool, pieces: list[tuple[int, int]]
) -> None:
    growing, tokens = form(calls_tools=calls_tools), tokens_of(text)
    said = told = 0
    events = growing.thought("hm")
    # Tokens may be ahead of the text, a part of which may be withheld.
    for length, ahead in pieces:
        piece = text[said : said + length]
        said += len(piece)
        reached = max(told, min(said + ahead, len(text)))
        events += growing.grown(piece, tokens[told:reached]) if piece else b""
        told = reached if piece else told
    events += growing.grown(text[said:])
    choices = choices_in(events + growing.ended(answer(text, "hm")))
    assert "".join(told_in(choices)) == text
    whole: Any = form(calls_tools=calls_tools).whole(answer(text, "hm"))
    assert "".join(told_in(whole["choices"])) == text


def test_a_chunk_has_those_of_its_text() -> None:
    growing = form()
    events = growing.thought("hm") + growing.grown("ab", tokens_of("ab"))
    events += growing.grown("c", tokens_of("c")) + growing.ended(answer("abc", "hm"))
    choices = choices_in(events)
    assert [told_in([choice]) for choice in choices] == [[], ["a", "b"], ["c"], []]
    assert [choice["logprobs"] is None for choice in choices] == [True, False, False, True]


def test_what_waits_for_its_text_comes_with_the_next_chunk_or_the_last() -> None:
    growing = form(calls_tools=True)
    assert growing.grown("<tool", tokens_of("<tool")) == b""
    (chunk,) = choices_in(growing.grown(" kit", tokens_of(" kit")))
    assert "".join(told_in([chunk])) == chunk["delta"]["content"] == "<tool kit"
    assert growing.grown(" <", tokens_of(" <")) == b""
    rest, last = choices_in(growing.ended(answer("<tool kit <x")))
    assert rest["delta"]["content"] == " <"
    assert told_in([rest, last]) == told_in([last]) == [*" <x"]


def test_who_does_not_ask_is_told_none() -> None:
    growing = form(tells_logprobs=False)
    events = growing.grown("ab", tokens_of("ab")) + growing.ended(answer("ab"))
    assert all(choice["logprobs"] is None for choice in choices_in(events))


def test_all_come_at_the_end_where_none_came_before() -> None:
    growing = form()
    choices = choices_in(growing.grown("ab") + growing.ended(answer("ab")))
    assert [told_in([choice]) for choice in choices] == [[], ["a", "b"]]
