"""Requests of ``POST /v1/messages``: each field is honoured or named in an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guided.errors import RequestError
from guided.spec import (
    FinishReason,
    GenerationResult,
    JsonOptions,
    JsonSchema,
    Message,
    Reasoning,
    Regex,
    Tool,
    ToolCall,
    ToolUse,
    Usage,
)
from guided_service.config import ServerConfig
from guided_service.http.anthropic_request import (
    CountRequest,
    MessageRequest,
    read_count,
    read_message,
)
from guided_service.http.asked import Asked, Shown

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
    assert one.constraint_field == field


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


# Refusals

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
IMAGE = {"type": "image", "source": {"type": "url", "url": "x"}}
DEFERRED = [{**TOOL, "defer_loading": True}]
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"messages": [USER, {"role": "assistant", "content": "{"}], "tools": [TOOL]},
        "messages[1]",
        "a turn of the assistant that may call tools is not continued: a call in it may have "
        "begun; end with a turn of the user, or leave tools and their calls out",
    ),
    (
        {"messages": [USER, {"role": "assistant", "content": " "}]},
        "messages[1]",
        "a turn of the assistant without a text has nothing to continue; leave it out",
    ),
    (
        {
            "messages": [USER, {"role": "assistant", "content": "{"}],
            "thinking": {"type": "enabled", "budget_tokens": 9},
        },
        "thinking",
        "a turn of the assistant that has begun comes after its thoughts; leave it out, or end "
        "with a turn of the user instead of messages[1]",
    ),
    (
        {"messages": [turn("user", text("a"), IMAGE)]},
        "messages[0].content[1].type",
        "messages[0].content[1].type is 'image', which is not honoured by this server; send text: "
        "the model reads neither images nor documents",
    ),
    (
        {"messages": [CALLED, turn("user", RESULT | {"content": [IMAGE]})]},
        "messages[1].content[0].content[0].type",
        "messages[1].content[0].content[0].type is 'image', which is not honoured by this server; "
        "send text: the model reads neither images nor documents",
    ),
    (
        {"messages": [turn("assistant", {"type": "redacted_thinking", "data": "x"}), USER]},
        "messages[0].content[0].type",
        "messages[0].content[0].type is 'redacted_thinking', which is not honoured by this "
        "server; send the text, thinking and tool_use blocks alone",
    ),
    (
        {"messages": [turn("assistant", text("a"), THOUGHT), USER]},
        "messages[0].content[1]",
        "messages[0].content[1] has thoughts, and stands after what they led to; leave it out, or "
        "begin another turn with it",
    ),
    (
        {"messages": [CALLED, turn("user", text("a"), RESULT)]},
        "messages[1].content[1]",
        "messages[1].content[1] is the result of a call, and stands after a text; put the results "
        "first: they belong to the turn before",
    ),
    (
        {"messages": [turn("user", RESULT)]},
        "messages[0].content[0].tool_use_id",
        "messages[0].content[0] answers the call 'toolu_1', which no earlier message made",
    ),
    (
        {"messages": [turn("assistant", CALL | {"name": "f g"}), USER]},
        "messages[0].content[0]",
        "a call names 'f g', which is no tool's name",
    ),
    (
        {"messages": [{"role": "developer", "content": "x"}]},
        "messages[0].role",
        "messages[0].role is 'developer', which is not honoured by this server; it is one of "
        "'user', 'assistant', 'system'",
    ),
    (
        {"tools": [SEARCH]},
        "tools[0].type",
        "tools[0].type is 'web_search_20250305', which is not honoured by this server; define a "
        "tool of your own with its name and an input_schema, and run its calls yourself",
    ),
    (
        {"tools": [{"name": "f"}]},
        "tools[0].input_schema",
        "tools[0].input_schema is missing",
    ),
    ({"tools": DEFERRED}, "tools[0].defer_loading", "tools[0].defer_loading: should be False"),
    (
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}},
        "tool_choice",
        "tool_choice names 'g', which is none of the tools",
    ),
    ({"tool_choice": {"type": "any"}}, "tool_choice", "tool_choice needs tools"),
    (
        {"output_config": {"format": FORMAT}, "output_format": FORMAT},
        "output_format.schema",
        "output_config.format.schema and output_format.schema both say what the answer is",
    ),
    (
        {"output_config": {"format": FORMAT}, "structured_outputs": {"regex": "a"}},
        "structured_outputs.regex",
        "output_config.format.schema and structured_outputs.regex both say what the answer is",
    ),
    (
        {"tools": [TOOL], "structured_outputs": {"regex": "a"}},
        "structured_outputs.regex",
        "structured_outputs.regex is not JSON, so it cannot be told from calls of tools; leave it "
        "or the tools out, or set tool_choice to none",
    ),
    (
        {
            "thinking": {"type": "enabled", "budget_tokens": 9},
            "output_config": {"effort": "low"},
        },
        "output_config.effort",
        "thinking.budget_tokens and output_config.effort both bound thoughts; leave it out, or set "
        'thinking to {"type": "adaptive"}',
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 100}},
        "thinking.budget_tokens",
        "the thoughts may have 100 tokens, but 100 is the budget of thoughts and answer together; "
        "raise max_tokens, or lower thinking.budget_tokens",
    ),
    (
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        "thinking.display",
        "thinking.display: should be 'summarized'",
    ),
    (
        {"thinking": {"type": "between_tools"}},
        "thinking.type",
        "thinking.type is 'between_tools', which is not honoured by this server; it is one of "
        "'enabled', 'adaptive', 'disabled'",
    ),
    ({"show_schema": True}, "show_schema", "show_schema needs a schema"),
    (
        {"json_options": {"whitespace": 1}},
        "json_options",
        "json_options are about a schema of the answer, and there is none; leave them out; of a "
        "tool's schema only unknown_keywords may be told",
    ),
    ({"max_tokens": None}, "max_tokens", "max_tokens is missing"),
    ({"max_tokens": 0}, "max_tokens", "max_tokens: should be greater than or equal to 1"),
    (
        {"min_tokens": 3, "stop_token_ids": [5]},
        "min_tokens",
        "min_tokens holds back the model's own end and stop_sequences, and stop_token_ids may be "
        "written before; leave one out",
    ),
    ({"stop": "a"}, "stop", "stop is not honoured by this server; use stop_sequences"),
    (
        {"response_format": {"type": "json_object"}},
        "response_format",
        "response_format is not honoured by this server; use output_config.format",
    ),
    (
        {"guided_regex": "a"},
        "guided_regex",
        "guided_regex is not honoured by this server; use structured_outputs.regex",
    ),
    (
        {"guided_json_object": True},
        "guided_json_object",
        "guided_json_object is not honoured by this server; use structured_outputs.json_object",
    ),
    (
        {"structured_outputs": {"json_object": True, "whitespace_pattern": " "}},
        "structured_outputs.whitespace_pattern",
        "structured_outputs.whitespace_pattern is not honoured by this server; use "
        "json_options.whitespace; JSON is compact without it",
    ),
    (
        {"mcp_servers": []},
        "mcp_servers",
        "mcp_servers is not honoured by this server; connect to them yourself, and send their "
        "tools as tools",
    ),
    (
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        "context_management.edits[0].type",
        "context_management.edits[0].type: should be 'clear_thinking_20251015'",
    ),
    (
        {"stop_sequence": ["a"]},
        "stop_sequence",
        "stop_sequence is not honoured by this server; did you mean 'stop_sequences'?",
    ),
    (
        {"speed": "fast"},
        "speed",
        "speed: should be 'standard'",
    ),
    (
        {"inference_geo": "eu"},
        "inference_geo",
        "inference_geo is not honoured by this server; leave it out; docs/anthropic.md lists what "
        "is honoured",
    ),
]


@pytest.mark.parametrize(("fields", "field", "message"), REFUSED)
def test_what_is_not_honoured_is_an_error_with_a_way_out(
    fields: dict[str, Any], field: str, message: str
) -> None:
    error = refusal(**fields)
    assert (error.field, str(error)) == (field, message)


# All fields

ANTHROPICS = {
    "messages.create": {
        *("max_tokens", "messages", "model", "cache_control", "container", "diagnostics"),
        *("inference_geo", "metadata", "output_config", "service_tier", "speed"),
        *("stop_sequences", "system", "thinking", "tool_choice", "tools", "stream"),
        *("temperature", "top_p", "top_k"),
    },
    "beta.messages.create": {
        *("prefill", "billing_policy", "compaction", "context_management", "fallbacks"),
        *("fallback_credit_token", "mcp_servers", "output_format", "thread"),
    },
}
"""The fields of bodies that the package ``anthropic`` 2.14.0 sends."""


@pytest.mark.parametrize(
    "name", sorted(set().union(*ANTHROPICS.values()) - set(MessageRequest.model_fields))
)
def test_a_field_of_anthropic_that_is_not_honoured_is_an_error_that_names_it(name: str) -> None:
    error = refusal(**{name: "something"})
    assert error.field == name
    assert str(error).startswith(f"{name} is not honoured by this server; ")


EXAMPLES: dict[str, dict[str, Any]] = {
    "model": {"model": "other"},
    "max_tokens": {"max_tokens": 5},
    "messages": {"messages": [{"role": "user", "content": "other"}]},
    "system": {"system": "Be kind."},
    "stream": {"stream": True},
    "stop_sequences": {"stop_sequences": ["end"]},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 5},
    "tools": {"tools": [TOOL]},
    "tool_choice": {"tools": [TOOL], "tool_choice": {"type": "any"}},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 9}},
    "output_config": {"output_config": {"format": FORMAT}},
    "output_format": {"output_format": FORMAT},
    "structured_outputs": {"structured_outputs": {"regex": "a"}},
    "seed": {"seed": 7},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "presence_penalty": {"presence_penalty": 0.5},
    "logit_bias": {"logit_bias": {"5": -100}},
    "min_p": {"min_p": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "stop_token_ids": {"stop_token_ids": [5]},
    "priority": {"priority": 3},
    "cache_salt": {"cache_salt": "salt"},
    "include_stop_str_in_output": {
        "stop_sequences": ["end"],
        "include_stop_str_in_output": True,
    },
    "min_tokens": {"min_tokens": 3},
    "ignore_eos": {"ignore_eos": True},
    "json_options": {"output_format": FORMAT, "json_options": {"whitespace": 1}},
    "on_incomplete": {"on_incomplete": "error"},
    "report": {"output_format": FORMAT, "report": True},
    "show_schema": {"output_format": FORMAT, "show_schema": True},
    "metadata": {"metadata": {"user_id": "x"}},
    "service_tier": {"service_tier": "standard_only"},
    **{
        name: {name: value}
        for name, value in (
            ("cache_control", {"type": "ephemeral"}),
            ("speed", "standard"),
            (
                "context_management",
                {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            ),
        )
    },
}
IGNORED = {"cache_control", "context_management", "metadata", "service_tier", "speed"}
"""Fields that are accepted and have no effect; docs/anthropic.md says why for each."""
ANSWER = GenerationResult("x", (), FinishReason.STOP, Usage(), 1.0)


def seen(one: Asked) -> tuple[object, ...]:
    """Everything that a request leads to."""
    form = one.form(Shown("id", 0, "m"))
    return one.model, one.request, one.is_streamed, str(form.whole(ANSWER))


@pytest.mark.parametrize("name", sorted(MessageRequest.model_fields))
def test_a_field_that_is_taken_is_honoured(name: str) -> None:
    fields = EXAMPLES[name]
    # Fields that it depends on are given in both.
    beside = {key: value for key, value in fields.items() if key != name}
    assert (seen(asked(**fields)) == seen(asked(**beside))) == (name in IGNORED)


def test_null_says_nothing() -> None:
    names = (set().union(*ANTHROPICS.values()) | {"best_off"}) - BASE.keys()
    assert asked(**dict.fromkeys(names)).request == asked().request


def test_the_page_tells_of_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "anthropic.md").read_text("utf-8")
    for name in MessageRequest.model_fields:
        assert f"`{name}`" in page, name


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
