"""Thoughts in ``POST /v1/responses``: requests, events, and the objects that openai reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseReasoningItem, ResponseStreamEvent
from pydantic import BaseModel, Field, TypeAdapter

from guided.client import Client
from guided.spec import (
    FinishReason,
    GenerationResult,
    Message,
    Reasoning,
    TokenId,
    TokenLogprobs,
    ToolCall,
)
from guided.spec.result import Usage
from guided.spec.tool_format import HERMES
from guided_service.http.asked import Shown
from tests.kit.built_tokenizers import built_vocabulary
from tests.service.http_server import HttpServer
from tests.service.test_http_fields import FLAT_TOOL, asked, refusal

SHOWN = Shown("id", 0, "m")
ask = partial(asked, "responses")


# Requests


@pytest.mark.parametrize(
    ("fields", "reasoning", "field"),
    [
        ({}, None, None),
        ({"reasoning": {}}, None, None),
        ({"reasoning": {"effort": "none"}}, Reasoning(0), "reasoning.effort"),
        ({"reasoning": {"effort": "none", "summary": "auto"}}, Reasoning(0), "reasoning.effort"),
        (
            {"reasoning": {"summary": "auto"}, "max_reasoning_tokens": 33},
            Reasoning(33),
            "max_reasoning_tokens",
        ),
        (
            {"reasoning": {"effort": "low"}, "max_output_tokens": 100},
            Reasoning(20),
            "reasoning.effort",
        ),
        ({"reasoning": {"effort": "xhigh"}, "max_output_tokens": 100}, Reasoning(90), None),
        ({"max_reasoning_tokens": 33}, Reasoning(33), "max_reasoning_tokens"),
    ],
)
def test_an_effort_is_a_part_of_the_budget(
    fields: dict[str, Any], reasoning: Reasoning | None, field: str | None
) -> None:
    one = ask(**fields)
    assert one.request.reasoning == reasoning
    if field is not None:
        assert one.came_from["reasoning"] == field


def thought(*texts: str, summary: tuple[str, ...] = ()) -> dict[str, Any]:
    """An item of thoughts as answers have them."""
    content = [{"type": "reasoning_text", "text": text} for text in texts]
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "content": content}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "warm"}


USER: dict[str, Any] = {"role": "user", "content": "a"}
SAID: dict[str, Any] = {"role": "assistant", "content": "b"}
CALLS = {each: ToolCall("f", "{}", each) for each in "12"}
TOLD = {each: Message("tool", "warm", tool_call_id=each) for each in "12"}


@pytest.mark.parametrize(
    ("items", "turns"),
    [
        ([thought("hm"), SAID], [Message("assistant", "b", reasoning="hm")]),
        ([thought("h", "m"), SAID], [Message("assistant", "b", reasoning="hm")]),
        ([thought("h"), thought("m"), SAID], [Message("assistant", "b", reasoning="h\nm")]),
        ([thought("hm", summary=("h",)), SAID], [Message("assistant", "b", reasoning="hm")]),
        ([thought(summary=("hm",)), SAID], [Message("assistant", "b", reasoning="hm")]),
        ([thought(), SAID], [Message("assistant", "b")]),
        (
            [thought("hm"), call("1"), call("2"), output("1"), output("2"), thought("so"), SAID],
            [
                Message("assistant", "", (CALLS["1"], CALLS["2"]), reasoning="hm"),
                TOLD["1"],
                TOLD["2"],
                Message("assistant", "b", reasoning="so"),
            ],
        ),
        (
            [thought("hm"), SAID, call("1"), output("1")],
            [Message("assistant", "b", (CALLS["1"],), reasoning="hm"), TOLD["1"]],
        ),
        (
            [SAID, thought("hm"), call("1"), output("1")],
            [
                Message("assistant", "b"),
                Message("assistant", "", (CALLS["1"],), reasoning="hm"),
                TOLD["1"],
            ],
        ),
        (
            [thought("hm"), call("1"), SAID],
            [Message("assistant", "", (CALLS["1"],), reasoning="hm"), Message("assistant", "b")],
        ),
        (
            [thought("hm"), {**SAID, "content": ""}, thought("so"), SAID],
            [Message("assistant", "", reasoning="hm"), Message("assistant", "b", reasoning="so")],
        ),
        ([thought("hm"), USER], [Message("assistant", "", reasoning="hm"), Message("user", "a")]),
    ],
)
def test_thoughts_belong_to_what_follows_them(
    items: list[dict[str, Any]], turns: list[Message]
) -> None:
    assert ask(input=[USER, *items]).request.prompt == (Message("user", "a"), *turns)


def test_thoughts_in_cipher_are_refused() -> None:
    error = refusal("responses", input=[USER, thought() | {"encrypted_content": "gAAA"}, SAID])
    assert error.field == "input[1].encrypted_content"


# Answers


def result(text: str) -> GenerationResult:
    tokens = tuple(TokenId(each) for each in (1, 2, 3))
    return GenerationResult(
        text=text,
        tokens=tokens,
        finish_reason=FinishReason.COMPLETE,
        usage=Usage(prompt_tokens=4, sampled_tokens=3, reasoning_tokens=2),
        seconds=0.0,
        logprobs=tuple(TokenLogprobs(token, b"x", -1.0, -1.0) for token in tokens),
        reasoning="hm",
        reasoning_tokens=2,
    )


def events_of(sent: bytes) -> list[dict[str, Any]]:
    """The events, each of which openai's own classes accept unchanged."""
    events = []
    for block in sent.decode().strip().split("\n\n"):
        _, _, data = block.partition("\ndata: ")
        TypeAdapter[Any](ResponseStreamEvent).validate_json(data)
        events.append(json.loads(data))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


THOUGHT_EVENTS = [
    "output_item.added",
    "content_part.added",
    "reasoning_text.delta",
    "reasoning_text.delta",
    "reasoning_text.done",
    "content_part.done",
]
SUMMARY_EVENTS = [
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
]
MESSAGE_EVENTS = [
    "output_item.done",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
]


@pytest.mark.parametrize("summary", [None, "auto", "detailed"])
def test_thoughts_are_an_item_before_the_message(summary: str | None) -> None:
    one = ask(reasoning={"effort": "low", "summary": summary}, top_logprobs=0)
    form = one.form(SHOWN)
    sent = form.thought("h") + form.thought("m") + form.grown("ab") + form.ended(result("ab"))
    events = events_of(sent)
    expected = [*THOUGHT_EVENTS, *(SUMMARY_EVENTS if summary else ()), *MESSAGE_EVENTS]
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds == ["created", "in_progress", *expected]
    response = events[-1]["response"]
    thought, message = response["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert thought["summary"] == ([{"type": "summary_text", "text": "hm"}] if summary else [])
    assert thought["id"].startswith("rs_")
    (part,) = message["content"]
    assert (part["text"], len(part["logprobs"])) == ("ab", 1)
    assert response["reasoning"] == {"effort": "low", "summary": summary}
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}
    assert [event["output_index"] for event in events[2:-1]] == [0] * (len(expected) - 8 + 1) + [
        1
    ] * 6
    whole: Any = (
        ask(reasoning={"effort": "low", "summary": summary}).form(SHOWN).whole(result("ab"))
    )
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message"]
    for item in (thought, whole["output"][0]):
        ResponseReasoningItem.model_validate(item)


def test_a_call_follows_thoughts() -> None:
    form = ask(reasoning={"effort": "low"}, tools=[FLAT_TOOL]).form(SHOWN)
    call = HERMES.call("f", '{"a":1}')
    events = events_of(form.thought("hm") + form.grown(call) + form.ended(result(call)))
    thought, called = events[-1]["response"]["output"]
    assert (thought["type"], called["type"]) == ("reasoning", "function_call")
    assert (called["name"], called["arguments"]) == ("f", '{"a":1}')


def test_nothing_behind_thoughts_is_an_empty_message() -> None:
    whole: Any = ask(reasoning={"effort": "low"}).form(SHOWN).whole(result(""))
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message"]


# With a model


class Who(BaseModel):
    name: str = Field(max_length=8)


SIGN = len(built_vocabulary("built like GPT-2")) + 3
"""The token that ends thoughts, which is the last of the tiny model's."""
OPTIONS: dict[str, Any] = {
    "input": "Who?",
    "max_output_tokens": 64,
    "temperature": 1.5,
    "extra_body": {"seed": 3, "logit_bias": {str(SIGN): -100.0}},
}
PARAMETERS = Who.model_json_schema() | {"additionalProperties": False}
WHO: Any = {"type": "function", "name": "Who", "parameters": PARAMETERS, "strict": True}


@pytest.fixture(scope="module")
def client(thinker: HttpServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{thinker.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def model(client: openai.OpenAI) -> str:
    (only,) = client.models.list().data
    return only.id


def test_openai_reads_thoughts_and_a_value(
    thinker: HttpServer, client: openai.OpenAI, model: str
) -> None:
    parsed = client.responses.parse(
        model=model, text_format=Who, reasoning={"effort": "low"}, **OPTIONS
    )
    assert isinstance(parsed.output_parsed, Who)
    thought = parsed.output[0]
    assert thought.type == "reasoning"
    assert thought.content
    with Client(thinker.process.address) as ours:
        same = ours.generate(
            "Who?",
            Who,
            reasoning=12,
            max_tokens=64,
            temperature=1.5,
            seed=3,
            logit_bias={SIGN: -100.0},
        )
    assert (thought.content[0].text, parsed.output_text) == (same.reasoning, same.text)
    assert parsed.usage is not None
    counted = parsed.usage.output_tokens_details.reasoning_tokens
    assert counted == same.usage.reasoning_tokens > 12
    again: Any = [{"role": "user", "content": "Who?"}, *parsed.output]
    after = client.responses.create(model=model, **OPTIONS | {"input": again})
    assert after.status == "completed" or after.incomplete_details is not None


def test_openai_streams_thoughts(client: openai.OpenAI, model: str) -> None:
    asked_for: Any = {"effort": "low", "summary": "auto"}
    with client.responses.stream(
        model=model, text_format=Who, reasoning=asked_for, **OPTIONS
    ) as stream:
        thoughts = [
            event.delta for event in stream if event.type == "response.reasoning_text.delta"
        ]
        final = stream.get_final_response()
    thought = final.output[0]
    assert thought.type == "reasoning"
    assert thought.content
    assert "".join(thoughts) == thought.content[0].text == thought.summary[0].text
    assert isinstance(final.output_parsed, Who)


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_thoughts_stand_before_tools_beside_a_schema(
    client: openai.OpenAI, model: str, choice: Any
) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "who", "schema": PARAMETERS}}
    options = OPTIONS | {"max_output_tokens": 120}
    said = client.responses.create(
        model=model,
        reasoning={"effort": "minimal"},
        tools=[WHO],
        tool_choice=choice,
        parallel_tool_calls=False,
        text=form,
        **options,
    )
    thought, answer = said.output
    assert thought.type == "reasoning"
    if answer.type == "function_call":
        assert answer.name == "Who"
        Who.model_validate_json(answer.arguments)
    else:
        assert choice == "auto"
        Who.model_validate_json(said.output_text)


def test_openai_sends_the_thoughts_before_a_call_back(client: openai.OpenAI, model: str) -> None:
    options = OPTIONS | {"max_output_tokens": 120, "tools": [WHO]}
    first = client.responses.create(
        model=model, reasoning={"effort": "minimal"}, tool_choice="required", **options
    )
    kinds = [item.type for item in first.output]
    assert kinds[:2] == ["reasoning", "function_call"]
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "Ada"}
        for item in first.output
        if item.type == "function_call"
    ]

    def input_tokens(items: list[Any]) -> int:
        told = {"input": [{"role": "user", "content": "Who?"}, *items, *results]}
        usage = client.responses.create(model=model, **options | told).usage
        assert usage is not None
        return usage.input_tokens

    assert input_tokens(first.output) > input_tokens(first.output[1:]) + 9
