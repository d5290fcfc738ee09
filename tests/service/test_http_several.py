"""Several choices in streams over HTTP: side by side, each with its end, then the cost of all."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.client import Client
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationResult,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided.spec.tool_format import ToolFormat
from guided_service.call_reader import CallReader, ReaderOf
from guided_service.http.asked import Shown
from guided_service.http.chat_answer import ChatForm, ChatStyle
from tests.service.http_server import HttpServer

SHOWN = Shown("id", 0, "m")
CALLED = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'


def chunks_in(events: bytes | str) -> list[dict[str, Any]]:
    text = events.decode() if isinstance(events, bytes) else events
    lines = [line for line in text.split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines if "[DONE]" not in line]


def form() -> ChatForm:
    def reader(form: ToolFormat) -> ReaderOf | None:
        return partial(CallReader, form)

    style = ChatStyle(
        reader, is_named=False, is_structured=False, tells_usage=True, tells_logprobs=True
    )
    return ChatForm(style, SHOWN)


def tokens_of(text: str) -> tuple[TokenLogprobs, ...]:
    """A token for each character."""
    return tuple(TokenLogprobs(TokenId(ord(one)), one.encode(), -1.0, -0.5) for one in text)


def candidate(index: int, text: str, reason: FinishReason) -> CandidateResult:
    return CandidateResult(index, text, (), reason, 0.0, logprobs=tokens_of(text))


@given(st.permutations([0, 0, 0, 1, 1, 2]))
def test_chunks_say_which_choice_they_belong_to(order: list[int]) -> None:
    pieces = {0: ["Let me see. ", CALLED[:30], CALLED[30:]], 1: ["Y", "es."], 2: ["No."]}
    left = {index: [*told] for index, told in pieces.items()}
    reasons = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.STOP_SEQUENCE)
    several = tuple(
        candidate(index, "".join(told), reasons[index]) for index, told in pieces.items()
    )
    result = GenerationResult(
        several[0].text, (), reasons[0], Usage(sampled_tokens=9), 0.0, candidates=several
    )
    growing, events = form(), []
    for index in order:
        text = left[index].pop(0)
        events.append(growing.grown(text, tokens_of(text), index))
        if not left[index]:
            events.append(growing.closed(several[index]))
    *chunks, last = chunks_in(b"".join([*events, growing.ended(result)]))
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 9)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    of = [[choice for choice in choices if choice["index"] == index] for index in range(3)]
    for told in of:
        assert told[0]["delta"]["role"] == "assistant"
        assert [bool(choice["finish_reason"]) for choice in told[:-1]] == [False] * (len(told) - 1)
    assert [told[-1]["finish_reason"] for told in of] == ["tool_calls", "length", "stop"]
    assert ["".join(c["delta"].get("content") or "" for c in told) for told in of] == [
        *("Let me see.", "Yes.", "No.")
    ]
    calls = [call for choice in of[0] for call in choice["delta"].get("tool_calls", [])]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a":1}'
    scored = [[t for c in told if c["logprobs"] for t in c["logprobs"]["content"]] for told in of]
    assert [len(tokens) for tokens in scored] == [len(one.text) for one in several]


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_choices_of_a_model_are_those_that_come_whole(thinker: HttpServer, path: str) -> None:
    with Client(thinker.process.address) as client:
        model = client.model().name
    is_chat = path.startswith("chat")
    body: dict[str, Any] = {"model": model, "n": 3, "seed": 4, "max_tokens": 16, "logprobs": 1}
    if is_chat:
        tool = {"type": "function", "function": {"name": "Who", "parameters": {}}}
        body |= {"messages": [{"role": "user", "content": "Who?"}], "tools": [tool]}
        body["logprobs"] = True
    else:
        body["prompt"] = "Who?"
    whole = thinker.post(f"/v1/{path}", body).json()
    streamed = thinker.post(
        f"/v1/{path}", body | {"stream": True, "stream_options": {"include_usage": True}}
    )
    *chunks, last = chunks_in(streamed.text)
    texts: dict[int, str] = defaultdict(str)
    ends: dict[int, str] = {}
    for chunk in chunks:
        (choice,) = chunk["choices"]
        assert choice["index"] not in ends, "a chunk came after the end of its choice"
        texts[choice["index"]] += (
            choice["delta"].get("content") if is_chat else choice["text"]
        ) or ""
        if choice["finish_reason"]:
            ends[choice["index"]] = choice["finish_reason"]
    assert ends == {one["index"]: one["finish_reason"] for one in whole["choices"]}
    for one in whole["choices"]:
        said = one["message"]["content"] if is_chat else one["text"]
        assert texts[one["index"]] == (said or "")
    order = [chunk["choices"][0]["index"] for chunk in chunks]
    assert order != sorted(order), "side by side"
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
