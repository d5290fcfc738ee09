"""Custom tools of OpenAI's own client, unchanged, against a server of a tiny model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageCustomToolCall
from openai.types.responses import (
    CustomTool,
    ResponseCustomToolCall,
    ResponseCustomToolCallInputDeltaEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseOutputItemAddedEvent,
    ToolChoiceCustom,
)

from guided.client import Client
from guided.errors import InvalidConstraintError
from guided.spec import Lark, Regex, Tool
from tests.kit.tiny_model import save_tiny_model
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import REAL_SERVER

ASK: Any = [{"role": "user", "content": "Write it."}]
PATCH = 'start: "*** Begin\\n" line ~ 1..3 "*** End"\nline: /[+-]/ /[^\\n]{0,9}/ "\\n"'
LARK = {"syntax": "lark", "definition": PATCH}
REGEX = {"syntax": "regex", "definition": r'"[a-z\n]{1,6}"'}
PATTERNS = {
    "patch": r"\*{3} Begin\n(?:[+-][^\n]{0,9}\n){1,3}\*{3} End",
    "quote": r'"[a-z\n]{1,6}"',
}
TOOLS: Any = [
    {"type": "custom", "custom": {"name": name, "format": {"type": "grammar", "grammar": grammar}}}
    for name, grammar in (("patch", LARK), ("quote", REGEX))
]
FLAT_TOOLS: Any = [
    {"type": "custom", "name": name, "format": {"type": "grammar", **grammar}}
    for name, grammar in (("patch", LARK), ("quote", REGEX))
]
FUNCTION: Any = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {"type": "boolean"}}},
    },
}
SEEDS = range(4)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("tiny")
    settings = {"model": str(save_tiny_model(folder / "model")), "dtype": "float32"}
    with serving_http(REAL_SERVER, folder / "log", settings, timeout=300) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: HttpServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def model(client: openai.OpenAI) -> str:
    (listed,) = client.models.list().data
    return listed.id


def assert_input(name: str, said: str) -> None:
    assert re.fullmatch(PATTERNS[name], said)


@pytest.mark.parametrize("choice", ["required", {"type": "custom", "custom": {"name": "patch"}}])
def test_a_chat_calls_custom_tools_whole_and_in_a_stream(
    client: openai.OpenAI, model: str, choice: Any
) -> None:
    options: dict[str, Any] = {
        "model": model,
        "messages": ASK,
        "tools": TOOLS,
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "max_tokens": 400,
    }
    for seed in SEEDS:
        answer = client.chat.completions.create(**options, seed=seed)
        (call,) = answer.choices[0].message.tool_calls or []
        assert isinstance(call, ChatCompletionMessageCustomToolCall)
        assert answer.choices[0].finish_reason == "tool_calls"
        assert_input(call.custom.name, call.custom.input)
        if choice != "required":
            assert call.custom.name == "patch"
        name, said = "", ""
        for chunk in client.chat.completions.create(**options, seed=seed, stream=True):
            for delta in chunk.choices[0].delta.tool_calls or ():
                grown: Any = delta.to_dict()["custom"]
                name, said = name + grown.get("name", ""), said + grown["input"]
        assert (name, said) == (call.custom.name, call.custom.input)


def test_a_chat_goes_on_behind_a_call_of_a_custom_tool(client: openai.OpenAI, model: str) -> None:
    options: dict[str, Any] = {"model": model, "tools": [FUNCTION, *TOOLS], "max_tokens": 400}
    named: Any = {"type": "function", "function": {"name": "f"}}
    kinds = set[str]()
    choices: list[Any] = ["required", named]
    for choice in choices:
        first = client.chat.completions.create(messages=ASK, tool_choice=choice, seed=1, **options)
        message = first.choices[0].message
        calls = message.tool_calls or []
        assert calls
        for call in calls:
            kinds.add(call.type)
            if first.choices[0].finish_reason == "tool_calls" and call.type == "custom":
                assert_input(call.custom.name, call.custom.input)
        answers = [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in calls]
        told: Any = [*ASK, message, *answers]
        second = client.chat.completions.create(messages=told, tool_choice="none", **options)
        assert isinstance(second.choices[0].message.content, str)
    assert kinds == {"custom", "function"}


@pytest.mark.parametrize("choice", ["required", {"type": "custom", "name": "quote"}])
def test_a_response_calls_custom_tools_whole_and_in_a_stream(
    client: openai.OpenAI, model: str, choice: Any
) -> None:
    options: dict[str, Any] = {
        "model": model,
        "input": ASK,
        "tools": FLAT_TOOLS,
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "max_output_tokens": 400,
    }
    for seed in SEEDS:
        response = client.responses.create(**options, extra_body={"seed": seed})
        (item,) = response.output
        assert isinstance(item, ResponseCustomToolCall)
        assert_input(item.name, item.input)
        assert all(isinstance(tool, CustomTool) for tool in response.tools)
        assert isinstance(response.tool_choice, ToolChoiceCustom | str)
        with client.responses.stream(**options, extra_body={"seed": seed}) as stream:
            events = [*stream]
        (added,) = [e for e in events if isinstance(e, ResponseOutputItemAddedEvent)]
        assert isinstance(added.item, ResponseCustomToolCall)
        grown = [e for e in events if isinstance(e, ResponseCustomToolCallInputDeltaEvent)]
        (done,) = [e for e in events if isinstance(e, ResponseCustomToolCallInputDoneEvent)]
        assert "".join(event.delta for event in grown) == done.input == item.input
        assert {done.item_id} == {added.item.id, *(event.item_id for event in grown)}
        # Back as they came, with their results.
        for sent in (item, item.to_dict(), added.item.model_copy(update={"input": done.input})):
            call_id = sent["call_id"] if isinstance(sent, dict) else sent.call_id
            output = {"type": "custom_tool_call_output", "call_id": call_id, "output": "done"}
            told: Any = [*ASK, sent, output]
            after = client.responses.create(model=model, input=told, max_output_tokens=9)
            assert after.output[0].type == "message"


def test_a_grammar_with_a_fault_names_its_field(client: openai.OpenAI, model: str) -> None:
    grammar = {"syntax": "lark", "definition": 'start: "a"\n  | b'}
    custom = {"name": "c", "format": {"type": "grammar", "grammar": grammar}}
    wrong: Any = {"type": "custom", "custom": custom}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages=ASK, tools=[FUNCTION, wrong])
    place = "tools[1].custom.format.grammar.definition"
    assert caught.value.param == place
    assert f"in {place}: line 2, column 5" in caught.value.message
    flat: Any = {"type": "custom", "name": "c", "format": {"type": "grammar", **grammar}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=model, input="x", tools=[*FLAT_TOOLS, flat])
    assert caught.value.param == "tools[2].format.definition"


def test_our_own_client_has_custom_tools_too(server: HttpServer) -> None:
    with Client(server.process.address) as ours:
        tool = Tool("quote", input=Regex(PATTERNS["quote"]))
        answer = ours.generate("Write it.", tools=[tool], tool_choice="quote", seed=1)
        (call,) = answer.tool_calls
        assert re.fullmatch(r'\{"input":"\\"(?:[a-z]|\\n){1,6}\\""\}', call.arguments)
        with pytest.raises(InvalidConstraintError) as caught:
            ours.generate("Write it.", tools=[Tool("c", input=Lark("start: b"))])
        assert caught.value.field == "tools.c.input"
        assert "line 1, column 8" in caught.value.message
