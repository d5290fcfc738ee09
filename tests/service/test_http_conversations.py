"""Conversations over HTTP as models get them."""

from __future__ import annotations

from typing import Any

import pytest

import guided
from guided.spec import Message, ToolCall
from tests.service.test_http_fields import FLAT_TOOL, SCHEMA, TOOL, asked, refusal
from tests.service.test_http_honoured import RESULT, SHOWN

NAMED = {"name": "thing", "schema": SCHEMA, "description": "A thing\nof a kind."}
CHAT_FORMAT: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": NAMED}}
TEXT_FORMAT: dict[str, Any] = {"text": {"format": {"type": "json_schema", **NAMED}}}
NOTE = "Answer with JSON of this description:\nA thing\nof a kind."


@pytest.mark.parametrize(
    ("face", "fields", "told"),
    [
        ("chat", CHAT_FORMAT, (Message("system", NOTE), Message("user", "Hi"))),
        (
            "chat",
            CHAT_FORMAT
            | {"messages": [{"role": "developer", "content": "Be kind."}], "show_schema": True},
            (Message("system", f"Be kind.\n\n{NOTE}"),),
        ),
        ("responses", TEXT_FORMAT, (Message("system", NOTE), Message("user", "Hi"))),
        (
            "responses",
            TEXT_FORMAT | {"instructions": "Be kind."},
            (Message("system", f"Be kind.\n\n{NOTE}"), Message("user", "Hi")),
        ),
    ],
)
def test_the_description_of_an_answer_is_told(
    face: str, fields: dict[str, Any], told: tuple[Message, ...]
) -> None:
    assert asked(face, **fields).request.prompt == told


def test_a_description_does_not_make_up_for_a_conversation_that_says_nothing() -> None:
    thoughts = {"type": "reasoning", "summary": []}
    for fields in ({}, TEXT_FORMAT):
        assert (
            refusal("responses", input=[thoughts], **fields).message == "the input has no message"
        )


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        [],
        [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo", "cache_control": None}],
        [{"type": "text", "text": ""}, {"type": "text", "text": " hello\n"}],
    ],
)
def test_parts_are_one_text_as_in_requests_of_ours(content: Any) -> None:
    turns = [{"role": "user", "content": content}]
    over_http, ours = asked("chat", messages=turns).request, guided.Request(turns).specification
    assert over_http.prompt == ours.prompt


def test_what_the_assistant_refused_to_say_is_what_it_said() -> None:
    parts = [{"type": "text", "text": "Hm. "}, {"type": "refusal", "refusal": "No."}]
    for turn in (
        {"refusal": "Hm. No."},
        {"content": "", "refusal": "Hm. No."},
        {"content": "Hm. No.", "refusal": ""},
        {"content": parts},
    ):
        asking = [{"role": "assistant", **turn}]
        assert asked("chat", messages=asking).request.prompt == (Message("assistant", "Hm. No."),)
    items = [{"role": "assistant", "content": [{**parts[0], "type": "output_text"}, parts[1]]}]
    assert asked("responses", input=items).request.prompt == (Message("assistant", "Hm. No."),)


def test_one_name_in_each_role_tells_nobody_apart() -> None:
    turns = [
        {"role": "system", "content": "Be kind.", "name": "Chair"},
        {"role": "user", "content": "Hi", "name": "Ada"},
        {"role": "assistant", "content": "Ho", "name": "Bob"},
        {"role": "user", "content": "So?"},
        {"role": "user", "content": "And?", "name": "Ada"},
    ]
    nameless = [{key: turn[key] for key in ("role", "content")} for turn in turns]
    assert asked("chat", messages=turns).request == asked("chat", messages=nameless).request


def test_calls_in_a_row_are_of_one_turn_with_what_was_said_before_them() -> None:
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    answer = {"type": "function_call_output", "output": "x"}
    items = [
        {"role": "user", "content": "Hi"},
        {**call, "call_id": "1"},
        {**answer, "call_id": "1", "name": "f"},
        {"role": "assistant", "content": "Ho"},
        {"type": "reasoning", "summary": []},
        {**call, "call_id": "2"},
        {**call, "call_id": "3"},
    ]
    assert asked("responses", input=items).request.prompt == (
        Message("user", "Hi"),
        Message("assistant", "", (ToolCall("f", "{}", "1"),)),
        Message("tool", "x", tool_call_id="1"),
        Message("assistant", "Ho", (ToolCall("f", "{}", "2"), ToolCall("f", "{}", "3"))),
    )


# Tools


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_among_some_tools_leaves_the_others_out(mode: str) -> None:
    named = [{"type": "function", "function": {"name": name}} for name in ("h", "f")]
    flat = [{"type": "function", "name": name} for name in ("h", "f")]
    chosen = {"type": "allowed_tools", "mode": mode, "tools": flat}
    tools = [{**TOOL, "function": {**TOOL["function"], "name": name}} for name in "fgh"]
    flat_tools = [{**FLAT_TOOL, "name": name} for name in "fgh"]
    chat = asked(
        "chat",
        tools=tools,
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}},
    )
    response = asked("responses", tools=flat_tools, tool_choice=chosen)
    for one in (chat, response):
        use = one.request.tools
        assert use is not None
        assert ([tool.name for tool in use.tools], use.choice) == (["f", "h"], mode)
    few = asked("responses", tools=[flat_tools[0], flat_tools[2]], tool_choice=mode)
    assert response.request == few.request
    told: Any = response.form(SHOWN)
    shown = told.whole(RESULT)
    assert shown["tool_choice"] == chosen
    assert [tool["name"] for tool in shown["tools"]] == ["f", "g", "h"]


# Thoughts


@pytest.mark.parametrize(
    "fields", [{}, {"reasoning": {"effort": "none"}}, {"max_reasoning_tokens": 0}]
)
def test_thoughts_may_be_asked_for_in_cipher_where_there_are_none(fields: dict[str, Any]) -> None:
    cipher = {"include": ["reasoning.encrypted_content"]}
    assert asked("responses", **fields, **cipher).request == asked("responses", **fields).request
