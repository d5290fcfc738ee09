"""Thoughts in calls over HTTP: how many may come, and where they are told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from guided.errors import RequestError
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationResult,
    Message,
    Reasoning,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided_service.http.chat_answer import ChatForm
from tests.service.test_http_fields import asked, refusal
from tests.service.test_http_forms import SHOWN, result, style


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, Reasoning(0)),
        ({"reasoning_effort": "minimal", "max_tokens": 100}, Reasoning(10)),
        ({"reasoning_effort": "low", "max_tokens": 100}, Reasoning(20)),
        ({"reasoning_effort": "medium"}, Reasoning(512)),
        ({"reasoning_effort": "high", "max_completion_tokens": 100}, Reasoning(80)),
        ({"max_reasoning_tokens": 0}, Reasoning(0)),
        ({"max_reasoning_tokens": 33}, Reasoning(33)),
        ({"thinking_token_budget": 0}, Reasoning(0)),
        ({"thinking_token_budget": 33}, Reasoning(33)),
        ({"thinking_token_budget": 33, "max_reasoning_tokens": 33}, Reasoning(33)),
        ({"chat_template_kwargs": {}}, None),
        ({"chat_template_kwargs": {"enable_thinking": False}}, Reasoning(0)),
        ({"chat_template_kwargs": {"thinking": False}}, Reasoning(0)),
        # No bound of its own: half of the budget, as everywhere.
        ({"chat_template_kwargs": {"enable_thinking": True}}, Reasoning()),
        ({"chat_template_kwargs": {"thinking": True, "enable_thinking": True}}, Reasoning()),
        ({"chat_template_kwargs": {"thinking": True}, "max_reasoning_tokens": 3}, Reasoning(3)),
        (
            {"chat_template_kwargs": {"thinking": True}, "reasoning_effort": "low"},
            Reasoning(204),
        ),
        (
            {"chat_template_kwargs": {"thinking": False}, "reasoning_effort": "none"},
            Reasoning(0),
        ),
    ],
)
def test_fields_say_how_much_the_model_thinks(
    fields: dict[str, Any], reasoning: Reasoning | None
) -> None:
    assert asked("chat", **fields).request.reasoning == reasoning


@pytest.mark.parametrize(
    ("fields", "field", "hint"),
    [
        ({"reasoning_effort": "minimal", "max_tokens": 9}, "reasoning_effort", "raise max_tokens"),
        (
            {"reasoning_effort": "low", "max_completion_tokens": 4},
            "reasoning_effort",
            "raise max_completion_tokens",
        ),
        (
            {"max_reasoning_tokens": 4, "max_completion_tokens": 4},
            "max_reasoning_tokens",
            "raise max_completion_tokens, or lower max_reasoning_tokens",
        ),
    ],
)
def test_a_budget_without_room_for_thoughts_and_answer_is_refused(
    fields: dict[str, Any], field: str, hint: str
) -> None:
    with pytest.raises(RequestError) as caught:
        asked("chat", **fields)
    assert caught.value.field == field
    assert hint in str(caught.value)


def test_thoughts_are_told_apart_from_content() -> None:
    shown = ChatForm(style(tells_thoughts=True, tells_logprobs=True), SHOWN)
    tokens = [TokenId(1), TokenId(2), TokenId(3)]
    result = GenerationResult(
        text="ab",
        tokens=tuple(tokens),
        finish_reason=FinishReason.COMPLETE,
        usage=Usage(prompt_tokens=4, sampled_tokens=3, reasoning_tokens=2),
        seconds=0.0,
        logprobs=tuple(TokenLogprobs(token, b"x", -1.0, -1.0) for token in tokens),
        reasoning="hm",
        reasoning_tokens=2,
    )
    whole: Any = shown.whole(result)
    (choice,) = whole["choices"]
    assert choice["message"]["reasoning_content"] == choice["message"]["reasoning"] == "hm"
    assert choice["message"]["content"] == "ab"
    assert len(choice["logprobs"]["content"]) == 1
    assert whole["usage"]["completion_tokens"] == 3
    assert whole["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    growing = ChatForm(style(tells_thoughts=True), SHOWN)
    events = b"".join(
        (growing.thought("h"), growing.thought("m"), growing.grown("ab"), growing.ended(result))
    )
    deltas = [
        json.loads(line.removeprefix("data: "))["choices"][0]["delta"]
        for line in events.decode().split("\n\n")
        if line and "[DONE]" not in line
    ]
    assert deltas == [
        {"role": "assistant", "content": "", "reasoning_content": "h", "reasoning": "h"},
        {"reasoning_content": "m", "reasoning": "m"},
        {"content": "ab"},
        {},
    ]


def test_a_stream_of_several_answers_tells_the_thoughts_of_each() -> None:
    several = tuple(
        CandidateResult(
            index, text, (), FinishReason.COMPLETE, 0.0, reasoning=thought, reasoning_tokens=2
        )
        for index, (text, thought) in enumerate([("ab", "hm"), ("cd", ""), ("ef", "so")])
    )
    events = ChatForm(style(tells_thoughts=True), SHOWN).ended(
        replace(result("ab"), candidates=several)
    )
    told: dict[int, list[dict[str, Any]]] = {}
    for line in events.decode().split("\n\n"):
        if line and "[DONE]" not in line:
            (choice,) = json.loads(line.removeprefix("data: "))["choices"]
            told.setdefault(choice["index"], []).append(choice["delta"])
    assert told == {
        0: [
            {"role": "assistant", "content": "", "reasoning_content": "hm", "reasoning": "hm"},
            {"content": "ab"},
            {},
        ],
        1: [{"role": "assistant", "content": "cd"}, {}],
        2: [
            {"role": "assistant", "content": "", "reasoning_content": "so", "reasoning": "so"},
            {"content": "ef"},
            {},
        ],
    }


# Thoughts of earlier turns


@pytest.mark.parametrize(
    ("fields", "thoughts"),
    [
        ({"reasoning_content": "hm"}, "hm"),
        ({"reasoning": "hm"}, "hm"),
        ({"reasoning_content": "hm", "reasoning": "hm"}, "hm"),
        ({"reasoning_content": "", "reasoning": "hm"}, "hm"),
        ({"reasoning_content": "hm", "reasoning": None}, "hm"),
        ({"reasoning_content": "hm", "reasoning": ""}, "hm"),
        ({"reasoning_content": None, "reasoning": ""}, ""),
    ],
)
def test_thoughts_that_come_back_belong_to_their_turn(
    fields: dict[str, Any], thoughts: str
) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", **fields}]
    assert asked("chat", messages=turns).request.prompt == (
        Message("user", "a"),
        Message("assistant", "b", reasoning=thoughts),
    )


def test_two_texts_of_the_same_thoughts_are_refused() -> None:
    turn = {"role": "assistant", "content": "b", "reasoning_content": "hm", "reasoning": "so"}
    error = refusal("chat", messages=[{"role": "user", "content": "a"}, turn])
    assert error.field == "messages[1].reasoning"
    assert str(error) == (
        "messages[1] has two texts for its thoughts, of which reasoning and reasoning_content are "
        "two names; leave one out"
    )


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_only_the_model_has_thoughts(name: str) -> None:
    error = refusal("chat", messages=[{"role": "user", "content": "a", name: "hm"}])
    assert error.field == f"messages[0].{name}"
