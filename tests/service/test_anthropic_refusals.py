"""What ``POST /v1/messages`` does not honour is an error with a way out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.test_anthropic_requests import (
    CALL,
    CALLED,
    FORMAT,
    RESULT,
    SCHEMA,
    THOUGHT,
    TOOL,
    USER,
    refusal,
    text,
    turn,
)

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
    ({"stop": "a"}, "stop", "stop is not honoured by this server; use stop_sequences"),
    (
        {"response_format": {"type": "json_object"}},
        "response_format",
        "response_format is not honoured by this server; use output_config.format, or "
        "structured_outputs.json_object for any object",
    ),
    (
        {"output_config": {"format": {"type": "json_object"}}},
        "output_config.format.type",
        "output_config.format.type: should be 'json_schema'; send a schema, or use "
        "structured_outputs.json_object for any object",
    ),
    (
        {"output_format": {"type": "json_object", "schema": SCHEMA}},
        "output_format.type",
        "output_format.type: should be 'json_schema'; send a schema, or use "
        "structured_outputs.json_object for any object",
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
