"""What requests of ``POST /v1/messages`` mean to the engine."""

from __future__ import annotations

from typing import Any

import pytest

from guided.errors import RequestError
from guided.spec import (
    JsonOptions,
    JsonSchema,
    Message,
    Reasoning,
    Regex,
    Tool,
    ToolCall,
    ToolUse,
)
from guided_service.config import ServerConfig
from guided_service.http.anthropic_request import (
    CountRequest,
    MessageRequest,
    read_count,
    read_message,
)
from guided_service.http.asked import Asked

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
BASE: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [USER]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL: dict[str, Any] = {"name": "f", "input_schema": SCHEMA}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "warm"}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "abc"}
MADE = ToolCall("f", '{"a":1}', "toolu_1")


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": [*blocks]}


def asked(**fields: Any) -> Asked:
    return read_message({**BASE, **fields}, ServerConfig())


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        asked(**fields)
    return caught.value


# Conversations

CALLED = turn("assistant", CALL)


@pytest.mark.parametrize(
    ("turns", "messages"),
    [
        ([turn("user", text("a"), text("b", **CACHED))], [Message("user", "ab")]),
        ([turn("user", text("a", citations=[]))], [Message("user", "a")]),
        ([turn("user")], [Message("user", "")]),
        (
            [USER, {"role": "assistant", "content": "b"}, USER],
            [Message("user", "Hi"), Message("assistant", "b"), Message("user", "Hi")],
        ),
        (
            [USER, {"role": "system", "content": "Be kind."}],
            [Message("user", "Hi"), Message("system", "Be kind.")],
        ),
        (
            [USER, turn("system", text("Be "), text("kind."))],
            [Message("user", "Hi"), Message("system", "Be kind.")],
        ),
        (
            [USER, turn("assistant", THOUGHT, text("b"), CALL | CACHED), turn("user", RESULT)],
            [
                Message("user", "Hi"),
                Message("assistant", "b", (MADE,), reasoning="hm"),
                Message("tool", "warm", tool_call_id="toolu_1"),
            ],
        ),
        (
            [USER, turn("assistant", THOUGHT, THOUGHT, text("b")), USER],
            [
                Message("user", "Hi"),
                Message("assistant", "b", reasoning="hm\nhm"),
                Message("user", "Hi"),
            ],
        ),
        (
            [CALLED, turn("user", RESULT | CACHED, text("And now?"))],
            [
                Message("assistant", "", (MADE,)),
                Message("tool", "warm", tool_call_id="toolu_1"),
                Message("user", "And now?"),
            ],
        ),
        (
            [CALLED, turn("user", RESULT | {"content": [text("wa"), text("rm")]})],
            [Message("assistant", "", (MADE,)), Message("tool", "warm", tool_call_id="toolu_1")],
        ),
        (
            [CALLED, turn("user", RESULT | {"is_error": True})],
            [
                Message("assistant", "", (MADE,)),
                Message("tool", "Error: warm", tool_call_id="toolu_1"),
            ],
        ),
        (
            [CALLED, turn("user", {"type": "tool_result", "tool_use_id": "toolu_1"})],
            [Message("assistant", "", (MADE,)), Message("tool", "", tool_call_id="toolu_1")],
        ),
        (
            [turn("assistant", CALL | {"caller": {"type": "direct"}}), turn("user", RESULT)],
            [Message("assistant", "", (MADE,)), Message("tool", "warm", tool_call_id="toolu_1")],
        ),
    ],
)
def test_blocks_become_the_messages_of_the_template(
    turns: list[dict[str, Any]], messages: list[Message]
) -> None:
    assert asked(messages=turns).request.prompt == tuple(messages)


@pytest.mark.parametrize(
    ("system", "messages"),
    [
        ("Be kind.", [Message("system", "Be kind.")]),
        ([text("Be "), text("kind.", **CACHED)], [Message("system", "Be kind.")]),
        ([], []),
        ("", []),
        (None, []),
    ],
)
def test_instructions_are_a_system_message_before_the_others(
    system: Any, messages: list[Message]
) -> None:
    assert asked(system=system).request.prompt == (*messages, Message("user", "Hi"))


# Answers


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"output_config": {"format": FORMAT}}, "output_config.format.schema"),
        ({"output_format": FORMAT}, "output_format.schema"),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
    ],
)
def test_a_schema_is_the_constraint_and_its_objects_are_closed(
    fields: dict[str, Any], field: str
) -> None:
    one = asked(**fields, json_options={"unknown_keywords": "refuse"})
    closed = (
        '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],'
        '"additionalProperties":false}'
    )
    assert one.request.constraint == JsonSchema(closed, JsonOptions(unknown_keywords="refuse"))
    assert one.came_from["constraint"] == field


def test_other_constraints_are_those_of_structured_outputs() -> None:
    assert asked(structured_outputs={"regex": "a+"}).request.constraint == Regex("a+")


PARAMETERS = '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}'
F, G = Tool("f", "", PARAMETERS), Tool("g", "G.", '{"type":"object"}', strict=False)
TOOLS = [
    {"type": "custom", **TOOL, **CACHED, "eager_input_streaming": True, "defer_loading": False},
    {
        "name": "g",
        "description": "G.",
        "input_schema": {"type": "object"},
        "strict": False,
        "allowed_callers": ["direct"],
    },
]


@pytest.mark.parametrize(
    ("choice", "use"),
    [
        (None, ToolUse((F, G))),
        ({"type": "auto"}, ToolUse((F, G))),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolUse((F, G), parallel=False)),
        ({"type": "any"}, ToolUse((F, G), "required")),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            ToolUse((F, G), "required", parallel=False),
        ),
        ({"type": "tool", "name": "g"}, ToolUse((F, G), "g")),
        ({"type": "none"}, ToolUse((F, G), "none")),
    ],
)
def test_tools_are_functions_and_a_choice_says_which_are_called(
    choice: dict[str, Any] | None, use: ToolUse
) -> None:
    assert asked(tools=TOOLS, tool_choice=choice).request.tools == use


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({}, Reasoning(0)),
        ({"thinking": {"type": "disabled"}}, Reasoning(0)),
        ({"thinking": {"type": "enabled", "budget_tokens": 33}}, Reasoning(33)),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 3, "display": "summarized"}},
            Reasoning(3),
        ),
        ({"thinking": {"type": "adaptive"}}, Reasoning()),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            Reasoning(20),
        ),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            Reasoning(95),
        ),
    ],
)
def test_the_model_thinks_first_only_where_it_is_let(
    fields: dict[str, Any], reasoning: Reasoning
) -> None:
    one = asked(**fields)
    assert one.request.reasoning == reasoning
    assert one.came_from["reasoning"] == "thinking"


def test_an_effort_bounds_nothing_where_nobody_thinks() -> None:
    effort = {"output_config": {"effort": "low"}}
    for thinking in (None, {"type": "disabled"}):
        assert asked(thinking=thinking, **effort).request.reasoning == Reasoning(0)


def test_only_adaptive_thoughts_are_left_out_by_a_model_that_has_none() -> None:
    assert asked(thinking={"type": "adaptive"}).thinks_if_able
    assert not asked(thinking={"type": "enabled", "budget_tokens": 9}).thinks_if_able


def test_a_turn_of_the_assistant_that_comes_last_is_continued() -> None:
    request = asked(messages=[USER, turn("assistant", text("{"))]).request
    assert request.continue_final_message
    assert request.begun == "{"
    assert not asked().request.continue_final_message


def test_the_budget_is_lowered_to_what_the_context_leaves() -> None:
    request = asked(max_tokens=5000).request
    assert (request.max_tokens, request.most_tokens) == (None, 5000)


def test_stop_sequences_are_stop_strings() -> None:
    assert asked(stop_sequences=["a", "b"]).request.stop == ("a", "b")


# Counting


def test_tokens_are_counted_of_the_prompt_that_an_answer_has() -> None:
    """All fields that change the prompt are taken, and change it alike."""
    fields: dict[str, Any] = {
        "messages": [CALLED, turn("user", RESULT)],
        "system": "Be kind.",
        "tools": TOOLS,
        "tool_choice": {"type": "any"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
        "cache_control": {"type": "ephemeral"},
    }
    counted = read_count({"model": "m", **fields})
    answered = asked(**fields).request
    for name in ("prompt", "tools", "show_schema"):
        assert getattr(counted.request, name) == getattr(answered, name)
    assert counted.request.reasoning is not None
    assert answered.reasoning is not None
    assert counted.request.reasoning.is_off == answered.reasoning.is_off
    assert counted.model == "m"


def test_counting_takes_no_field_of_an_answer() -> None:
    with pytest.raises(RequestError) as caught:
        read_count({"model": "m", "messages": [USER], "max_tokens": 5})
    assert caught.value.field == "max_tokens"
    assert set(CountRequest.model_fields) <= set(MessageRequest.model_fields)
