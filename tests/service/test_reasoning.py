"""Thoughts before answers as users get them: a server process, the SDK, OpenAI's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

import guided
from guided.client import AsyncClient, Client
from guided.errors import RequestError
from guided.spec import FinishReason
from tests.kit.built_tokenizers import built_vocabulary
from tests.kit.pages import run_blocks
from tests.service.http_server import HttpServer


class Who(BaseModel):
    name: str = Field(max_length=8)


_SIGN = len(built_vocabulary("built like GPT-2")) + 3
"""The token that ends thoughts, which is the last of the tiny model's."""
OPTIONS: dict[str, Any] = {
    "max_tokens": 64,
    "temperature": 1.5,
    "seed": 3,
    "logit_bias": {_SIGN: -100.0},
}


@pytest.fixture
def client(thinker: HttpServer) -> Iterator[Client]:
    with Client(thinker.process.address) as connected:
        yield connected


def test_an_answer_is_of_its_type_and_the_thoughts_are_beside(client: Client) -> None:
    answer = client.generate("Who?", Who, reasoning=12, **OPTIONS)
    assert isinstance(answer.value, Who)
    assert answer.reasoning
    assert answer.reasoning not in answer.text
    assert 12 < answer.usage.reasoning_tokens <= 15
    assert answer.finish_reason is FinishReason.COMPLETE
    plain = client.generate("Who?", Who, **OPTIONS)
    assert (plain.reasoning, plain.usage.reasoning_tokens) == ("", 0)


def test_the_page_shows_code_that_runs(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_blocks("docs/reasoning.md", {"client": client, "Verdict": Who})
    answer = names["answer"]
    assert capsys.readouterr().out == (
        f"{answer.reasoning}\n{answer.value}\n{answer.usage.reasoning_tokens}\n"
        f"{names['stream'].answer.reasoning}"
    )


def test_a_stream_tells_thoughts_apart(client: Client) -> None:
    whole = client.generate("Who?", Who, reasoning=20, **OPTIONS)
    with client.stream("Who?", Who, reasoning=20, **OPTIONS) as stream:
        thoughts = list(stream.thoughts())
        text = "".join(stream)
        assert list(stream.thoughts()) == []
    assert ("".join(thoughts), text) == (whole.reasoning, whole.text)
    assert stream.answer.reasoning == whole.reasoning
    with client.stream("Who?", Who, reasoning=20, **OPTIONS) as passed_over:
        assert "".join(passed_over) == whole.text
    with client.stream("Who?", Who, reasoning=20, **OPTIONS) as typed:
        assert list(typed.partials())[-1] == whole.value


def test_an_async_stream_does_the_same(thinker: HttpServer) -> None:
    async def read() -> tuple[str, str, guided.Answer[Who]]:
        async with (
            AsyncClient(thinker.process.address) as client,
            client.stream("Who?", Who, reasoning=20, **OPTIONS) as stream,
        ):
            thoughts = [thought async for thought in stream.thoughts()]
            text = [piece async for piece in stream]
            return "".join(thoughts), "".join(text), stream.answer

    thoughts, text, answer = asyncio.run(read())
    assert (thoughts, text) == (answer.reasoning, answer.text)
    assert thoughts


def test_several_answers_each_have_thoughts(client: Client) -> None:
    answer = client.generate("Who?", Who, reasoning=9, n=3, **OPTIONS)
    assert all(candidate.reasoning for candidate in answer.candidates)
    assert len({candidate.reasoning for candidate in answer.candidates}) == 3


def test_tools_are_called_behind_thoughts(client: Client) -> None:
    answer = client.generate(
        "Who?", tools=[Who], tool_choice="Who", reasoning=9, **OPTIONS | {"max_tokens": 120}
    )
    assert answer.reasoning
    assert client.model().tool_format == "mistral"
    (call,) = answer.tool_calls
    assert call.name == "Who"
    assert answer.text == f"[TOOL_CALLS]Who[ARGS]{call.arguments}"
    assert Who.model_validate_json(call.arguments)
    with client.stream(
        "Who?", tools=[Who], tool_choice="Who", reasoning=9, **OPTIONS | {"max_tokens": 120}
    ) as stream:
        assert "".join(stream) == answer.text
    assert answer.message.reasoning == answer.reasoning


def test_the_thoughts_before_a_call_are_shown_with_its_result(client: Client) -> None:
    answer = client.generate(
        "Who?", tools=[Who], tool_choice="Who", reasoning=9, **OPTIONS | {"max_tokens": 120}
    )
    (call,) = answer.tool_calls
    prompts = []
    for made in (answer.message, replace(answer.message, reasoning="")):
        result = guided.Message("tool", "Ada", tool_call_id=call.id)
        told = [guided.Message("user", "Who?"), made, result]
        prompts.append(client.generate(told, tools=[Who], **OPTIONS).usage.prompt_tokens)
    thoughtful, thoughtless = prompts
    assert thoughtful > thoughtless + 9 > answer.usage.prompt_tokens


def test_calls_begin_with_special_tokens_over_http(thinker: HttpServer, client: Client) -> None:
    function = {"name": "Who", "parameters": Who.model_json_schema()}
    asked: dict[str, Any] = {
        "model": client.model().name,
        "messages": [{"role": "user", "content": "Who?"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 90,
        "seed": 3,
    }
    (choice,) = thinker.post("/v1/chat/completions", asked).json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "Who"
    assert Who.model_validate_json(call["function"]["arguments"])
    events = thinker.post("/v1/chat/completions", asked | {"stream": True}).text
    deltas = [
        json.loads(event.removeprefix("data: "))["choices"][0]["delta"]
        for event in events.split("\n\n")
        if event and "[DONE]" not in event
    ]
    calls = [each["function"] for delta in deltas for each in delta.get("tool_calls", [])]
    assert [each["name"] for each in calls if "name" in each] == ["Who"]
    arguments = "".join(each["arguments"] for each in calls)
    assert arguments == call["function"]["arguments"]


def test_openais_api_tells_reasoning_content(thinker: HttpServer, client: Client) -> None:
    schema = {"name": "who", "schema": Who.model_json_schema() | {"additionalProperties": False}}
    asked: dict[str, Any] = {
        "model": client.model().name,
        "messages": [{"role": "user", "content": "Who?"}],
        "response_format": {"type": "json_schema", "json_schema": schema},
        "max_reasoning_tokens": 20,
        **OPTIONS,
        "logit_bias": {str(_SIGN): -100.0},
    }
    body = thinker.post("/v1/chat/completions", asked).json()
    assert "choices" in body, body
    same = client.generate("Who?", Who, reasoning=20, **OPTIONS)
    message = body["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (same.reasoning, same.text)
    details = body["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == same.usage.reasoning_tokens
    events = thinker.post("/v1/chat/completions", asked | {"stream": True}).text.split("\n\n")
    deltas = [
        json.loads(event.removeprefix("data: "))["choices"][0]["delta"]
        for event in events
        if event and "[DONE]" not in event
    ]
    thoughts = "".join(delta.get("reasoning_content", "") for delta in deltas)
    text = "".join(delta.get("content") or "" for delta in deltas)
    assert (thoughts, text) == (same.reasoning, same.text)


def test_openai_sends_the_thoughts_before_a_call_back(thinker: HttpServer, client: Client) -> None:
    function: Any = {"name": "Who", "parameters": Who.model_json_schema()}
    options: dict[str, Any] = {
        "model": client.model().name,
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 120,
        "seed": 3,
        "extra_body": {"max_reasoning_tokens": 9},
    }
    asked: Any = {"role": "user", "content": "Who?"}
    with openai.OpenAI(base_url=f"{thinker.url}/v1", api_key="none", max_retries=0) as chat:
        whole = chat.chat.completions.create(messages=[asked], tool_choice="required", **options)
        made: Any = whole.choices[0].message
        assert made.reasoning == made.reasoning_content != ""

        def prompt_tokens(turn: Any) -> int:
            results = [
                {"role": "tool", "content": "Ada", "tool_call_id": each.id}
                for each in made.tool_calls
            ]
            told: Any = [asked, turn, *results]
            usage = chat.chat.completions.create(messages=told, **options).usage
            assert usage is not None
            return int(usage.prompt_tokens)

        thoughtless = made.model_dump(exclude={"reasoning", "reasoning_content"}, exclude_none=True)
        renamed = thoughtless | {"reasoning": made.reasoning}
        assert prompt_tokens(made) == prompt_tokens(renamed) > prompt_tokens(thoughtless) + 9


@pytest.mark.parametrize("is_on", [True, False])
def test_a_variable_of_the_template_turns_thoughts_on_or_off(
    thinker: HttpServer, client: Client, *, is_on: bool
) -> None:
    asked: dict[str, Any] = {
        "model": client.model().name,
        "messages": [{"role": "user", "content": "Who?"}],
        "guided_json": Who.model_json_schema(),
        "chat_template_kwargs": {"enable_thinking": is_on},
        **OPTIONS,
        "logit_bias": {str(_SIGN): -100.0},
    }
    body = thinker.post("/v1/chat/completions", asked).json()
    assert "choices" in body, body
    message = body["choices"][0]["message"]
    same = client.generate("Who?", Who, reasoning=guided.Reasoning(None if is_on else 0), **OPTIONS)
    assert (message["reasoning_content"], message["content"]) == (same.reasoning, same.text)
    assert bool(same.reasoning) == is_on


def test_what_cannot_be_is_refused_with_its_field(client: Client) -> None:
    with pytest.raises(RequestError, match="reasoning 'much' is not a number of tokens") as typed:
        client.generate("x", reasoning="much")  # type: ignore[arg-type]
    assert typed.value.field == "reasoning"
    with pytest.raises(RequestError, match="beams search for answers") as beams:
        client.generate("x", beams=guided.Beams(2), reasoning=3)
    assert beams.value.field == "reasoning"


def test_thoughts_may_have_signs_of_ones_own(client: Client) -> None:
    own = guided.Reasoning(15, begin="Let me see: ", end="So:")
    answer = client.generate("Who?", Who, reasoning=own, **OPTIONS)
    assert "So:" not in answer.reasoning
    assert isinstance(answer.value, Who)
