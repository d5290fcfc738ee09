"""For each field inside of others: fields of a body with it, its place, and another value."""

from __future__ import annotations

import json
from typing import Any

from tests.service.test_http_fields import FLAT_TOOL, SCHEMA, TOOL

ABSENT = object()

Row = tuple[dict[str, Any], str, Any]
"""Fields of a body, the place of one inside of them, and another value for it."""


def _said(**turn: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", **turn}]}


def _answered(**turn: Any) -> dict[str, Any]:
    return {"messages": [CALLED, {"role": "tool", "tool_call_id": "1", "content": "x", **turn}]}


CALL: dict[str, Any] = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [CALL, {**CALL, "id": "2"}],
}
NAMED = {"name": "n", "schema": SCHEMA, "description": "A thing.", "strict": True}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": NAMED}}
TWO_TOOLS = [TOOL, {"type": "function", "function": {"name": "g", "description": "G."}}]
CHOSEN = {
    "tools": TWO_TOOLS,
    "tool_choice": {"type": "function", "function": {"name": "f"}},
}
ALLOWED = {
    "tools": TWO_TOOLS,
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    },
}
GRAMMAR = {"syntax": "lark", "definition": 'start: "a"'}
CUSTOM: dict[str, Any] = {
    "type": "custom",
    "custom": {
        "name": "c",
        "description": "C.",
        "format": {"type": "grammar", "grammar": GRAMMAR},
    },
}
TWO_CUSTOM = [CUSTOM, {"type": "custom", "custom": {"name": "d"}}]
CUSTOM_CHOSEN = {"tools": TWO_CUSTOM, "tool_choice": {"type": "custom", "custom": {"name": "c"}}}
CUSTOM_CALL: dict[str, Any] = {"id": "1", "type": "custom", "custom": {"name": "c", "input": "a"}}
TAG = '{"type": "structural_tag", "format": {"type": "any_text"}}'
USER: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi", "name": "Ada"}]}
SYSTEM: dict[str, Any] = {"messages": [{"role": "system", "content": "Hi", "name": "Ada"}]}
PARTS = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}
STREAMED: dict[str, Any] = {"stream": True}

OBJECT = {"type": "json_object", "schema": SCHEMA}
OLD_TAG = {
    "type": "structural_tag",
    "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}],
    "triggers": ["<"],
}

THOUGHTS: dict[str, Row] = {
    f"TemplateVariables.{name}": (
        {"chat_template_kwargs": {name: False}},
        f"chat_template_kwargs.{name}",
        True,
    )
    for name in ("enable_thinking", "thinking")
}
CONSTRAINTS: dict[str, Row] = {
    "JsonObjectFormat.schema": ({"response_format": OBJECT}, "response_format.schema", {}),
    "StructuralTagFormat.format": (
        {"response_format": json.loads(TAG)},
        "response_format.format",
        {"type": "const_string", "value": "a"},
    ),
    "StructuralTagFormat.structures": (
        {"response_format": OLD_TAG},
        "response_format.structures.0.begin",
        "<b>",
    ),
    "StructuralTagFormat.triggers": (
        {"response_format": OLD_TAG},
        "response_format.triggers",
        ["<a"],
    ),
    "JsonSchemaFormat.json_schema": (
        FORMAT,
        "response_format.json_schema",
        {"name": "n", "schema": {}},
    ),
    "JsonSchemaFormat.schema": (
        {"response_format": {"type": "json_schema", "schema": SCHEMA}},
        "response_format.schema",
        {},
    ),
    "NamedSchema.name": (FORMAT, "response_format.json_schema.name", "m"),
    "NamedSchema.schema": (FORMAT, "response_format.json_schema.schema", {}),
    "NamedSchema.description": (FORMAT, "response_format.json_schema.description", ABSENT),
    "NamedSchema.strict": (FORMAT, "response_format.json_schema.strict", False),
    **{
        f"StructuredOutputs.{name}": (
            {"structured_outputs": {name: value}},
            "structured_outputs",
            None,
        )
        for name, value in (
            ("json", SCHEMA),
            ("regex", "a"),
            ("choice", ["a"]),
            ("grammar", 'start: "a"'),
            ("json_object", True),
            ("structural_tag", TAG),
        )
    },
    "StreamOptions.include_usage": (
        STREAMED | {"stream_options": {"include_usage": True}},
        "stream_options.include_usage",
        False,
    ),
    "StreamOptions.include_obfuscation": (
        STREAMED | {"stream_options": {"include_obfuscation": False}},
        "stream_options.include_obfuscation",
        ABSENT,
    ),
}
CHAT: dict[str, Row] = (
    CONSTRAINTS
    | THOUGHTS
    | {
        "SystemTurn.role": (SYSTEM, "messages.0.role", "user"),
        "SystemTurn.content": (SYSTEM, "messages.0.content", "Ho"),
        "SystemTurn.name": (SYSTEM, "messages.0.name", ABSENT),
        "UserTurn.content": (USER, "messages.0.content", "Ho"),
        "UserTurn.name": (USER, "messages.0.name", ABSENT),
        "TextPart.text": (PARTS, "messages.0.content.0.text", "Ho"),
        "AssistantTurn.content": (_said(content="Ho"), "messages.1.content", "Hi"),
        "AssistantTurn.refusal": (_said(refusal="No."), "messages.1.refusal", ABSENT),
        "AssistantTurn.parsed": (_said(content="1", parsed=1), "messages.1.parsed", ABSENT),
        "AssistantTurn.audio": (_said(content="Ho", audio=None), "messages.1.audio", ABSENT),
        "AssistantTurn.annotations": (
            _said(content="Ho", annotations=[]),
            "messages.1.annotations",
            ABSENT,
        ),
        "AssistantTurn.function_call": (
            _said(content="Ho", function_call=None),
            "messages.1.function_call",
            ABSENT,
        ),
        "AssistantTurn.tool_calls": (_said(tool_calls=[CALL]), "messages.1.tool_calls", ABSENT),
        "AssistantTurn.reasoning_content": (
            _said(content="Ho", reasoning_content="hm"),
            "messages.1.reasoning_content",
            ABSENT,
        ),
        "AssistantTurn.reasoning": (
            _said(content="Ho", reasoning="hm"),
            "messages.1.reasoning",
            "so",
        ),
        "AssistantTurn.name": (_said(content="Ho", name="Bob"), "messages.1.name", ABSENT),
        "RefusalPart.refusal": (
            _said(content=[{"type": "refusal", "refusal": "No."}]),
            "messages.1.content.0.refusal",
            "Never.",
        ),
        "CallMade.id": (_said(tool_calls=[CALL]), "messages.1.tool_calls.0.id", "2"),
        "CallMade.function": (
            _said(tool_calls=[CALL]),
            "messages.1.tool_calls.0.function",
            {"name": "g", "arguments": "{}"},
        ),
        "CallMade.index": (
            _said(tool_calls=[{**CALL, "index": 0}]),
            "messages.1.tool_calls.0.index",
            ABSENT,
        ),
        "Called.name": (_said(tool_calls=[CALL]), "messages.1.tool_calls.0.function.name", "g"),
        "Called.arguments": (
            _said(tool_calls=[CALL]),
            "messages.1.tool_calls.0.function.arguments",
            '{"a": 1}',
        ),
        "Called.parsed_arguments": (
            _said(tool_calls=[{**CALL, "function": {**CALL["function"], "parsed_arguments": {}}}]),
            "messages.1.tool_calls.0.function.parsed_arguments",
            ABSENT,
        ),
        "ToolTurn.content": (_answered(), "messages.1.content", "y"),
        "ToolTurn.tool_call_id": (_answered(), "messages.1.tool_call_id", "2"),
        "ToolTurn.name": (_answered(name="f"), "messages.1.name", ABSENT),
        "CustomCallMade.id": (_said(tool_calls=[CUSTOM_CALL]), "messages.1.tool_calls.0.id", "2"),
        "CustomCallMade.custom": (
            _said(tool_calls=[CUSTOM_CALL]),
            "messages.1.tool_calls.0.custom",
            {"name": "d", "input": "a"},
        ),
        "CustomCallMade.index": (
            _said(tool_calls=[{**CUSTOM_CALL, "index": 0}]),
            "messages.1.tool_calls.0.index",
            ABSENT,
        ),
        "CustomCalled.name": (
            _said(tool_calls=[CUSTOM_CALL]),
            "messages.1.tool_calls.0.custom.name",
            "d",
        ),
        "CustomCalled.input": (
            _said(tool_calls=[CUSTOM_CALL]),
            "messages.1.tool_calls.0.custom.input",
            "b",
        ),
        "ChatFunctionTool.function": ({"tools": [TOOL]}, "tools.0.function", {"name": "g"}),
        "Function.name": ({"tools": [TOOL]}, "tools.0.function.name", "g"),
        "Function.description": ({"tools": TWO_TOOLS}, "tools.1.function.description", "H."),
        "Function.parameters": ({"tools": [TOOL]}, "tools.0.function.parameters", ABSENT),
        "Function.strict": (
            {"tools": [{**TOOL, "function": {**TOOL["function"], "strict": False}}]},
            "tools.0.function.strict",
            True,
        ),
        "ChatCustomTool.custom": ({"tools": [CUSTOM]}, "tools.0.custom", {"name": "d"}),
        "ChatCustom.name": ({"tools": [CUSTOM]}, "tools.0.custom.name", "d"),
        "ChatCustom.description": ({"tools": [CUSTOM]}, "tools.0.custom.description", ABSENT),
        "ChatCustom.format": ({"tools": [CUSTOM]}, "tools.0.custom.format", {"type": "text"}),
        "GrammarFormat.grammar": (
            {"tools": [CUSTOM]},
            "tools.0.custom.format.grammar",
            {"syntax": "regex", "definition": "a"},
        ),
        "Grammar.syntax": (
            {"tools": [CUSTOM]},
            "tools.0.custom.format.grammar.syntax",
            "regex",
        ),
        "Grammar.definition": (
            {"tools": [CUSTOM]},
            "tools.0.custom.format.grammar.definition",
            'start: "b"',
        ),
        "NamedCustomChoice.custom": (CUSTOM_CHOSEN, "tool_choice.custom", {"name": "d"}),
        "NamedChoice.function": (CHOSEN, "tool_choice.function", {"name": "g"}),
        "Named.name": (CHOSEN, "tool_choice.function.name", "g"),
        "AllowedChoice.allowed_tools": (ALLOWED, "tool_choice", "auto"),
        "AllowedTools.mode": (ALLOWED, "tool_choice.allowed_tools.mode", "required"),
        "AllowedTools.tools": (
            ALLOWED,
            "tool_choice.allowed_tools.tools",
            [{"type": "function", "function": {"name": "g"}}],
        ),
    }
)


def _items(*items: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": "Hi"}, *items]}


LOGPROB = {"token": "Ho", "bytes": [72, 111], "logprob": 0, "top_logprobs": []}
TEXT = {"type": "output_text", "text": "Ho", "annotations": [], "logprobs": [LOGPROB]}
ITEM = {"type": "message", "role": "assistant", "content": [TEXT]}
CUSTOM_ITEM = {"type": "custom_tool_call", "call_id": "1", "name": "c", "input": "a"}
CUSTOM_OUTPUT = {"type": "custom_tool_call_output", "call_id": "1", "output": "x"}
CUSTOM_OUTPUTS = _items(
    CUSTOM_ITEM, {**CUSTOM_ITEM, "call_id": "2"}, {**CUSTOM_OUTPUT, "name": "c"}
)
FLAT_CUSTOM: dict[str, Any] = {
    "type": "custom",
    "name": "c",
    "description": "C.",
    "format": {"type": "grammar", **GRAMMAR},
}
TWO_FLAT_CUSTOM = [FLAT_CUSTOM, {"type": "custom", "name": "d"}]
CALL_ITEM = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "1", "output": "x"}
OUTPUTS = _items(CALL_ITEM, {**CALL_ITEM, "call_id": "2"}, {**OUTPUT, "name": "f"})
THOUGHT = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "so"}],
    "content": [{"type": "reasoning_text", "text": "hm"}],
    "encrypted_content": None,
}
TEXT_FORMAT = {"text": {"format": {"type": "json_schema", **NAMED}}}
FLAT_TOOLS = [FLAT_TOOL, {"type": "function", "name": "g", "description": "G."}]
FLAT_CHOSEN = {"tools": FLAT_TOOLS, "tool_choice": {"type": "function", "name": "f"}}
FLAT_ALLOWED = {
    "tools": FLAT_TOOLS,
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "f"}],
    },
}
RETURNED = {"id": "x", "status": "completed"}

RESPONSES: dict[str, Row] = THOUGHTS | {
    "JsonObjectFormat.schema": ({"text": {"format": OBJECT}}, "text.format.schema", {}),
    "MessageItem.role": (_items(ITEM), "input.1.role", "user"),
    "MessageItem.content": (_items(ITEM), "input.1.content", "Hi"),
    "MessageItem.phase": (_items({**ITEM, "phase": "final_answer"}), "input.1.phase", ABSENT),
    "Text.type": (_items(ITEM), "input.1.content.0.type", "input_text"),
    "Text.text": (_items(ITEM), "input.1.content.0.text", "Hi"),
    "Text.annotations": (_items(ITEM), "input.1.content.0.annotations", ABSENT),
    "Text.logprobs": (_items(ITEM), "input.1.content.0.logprobs", ABSENT),
    "Text.parsed": (
        _items({**ITEM, "content": [{**TEXT, "parsed": 1}]}),
        "input.1.content.0.parsed",
        ABSENT,
    ),
    "RefusalPart.refusal": (
        _items({**ITEM, "content": [{"type": "refusal", "refusal": "No."}]}),
        "input.1.content.0.refusal",
        "Never.",
    ),
    "CallItem.call_id": (_items(CALL_ITEM), "input.1.call_id", "2"),
    "CallItem.name": (_items(CALL_ITEM), "input.1.name", "g"),
    "CallItem.arguments": (_items(CALL_ITEM), "input.1.arguments", '{"a": 1}'),
    "CallItem.parsed_arguments": (
        _items({**CALL_ITEM, "parsed_arguments": {}}),
        "input.1.parsed_arguments",
        ABSENT,
    ),
    "OutputItem.call_id": (OUTPUTS, "input.3.call_id", "2"),
    "OutputItem.output": (OUTPUTS, "input.3.output", "y"),
    "OutputItem.name": (OUTPUTS, "input.3.name", ABSENT),
    "CustomCallItem.call_id": (_items(CUSTOM_ITEM), "input.1.call_id", "2"),
    "CustomCallItem.name": (_items(CUSTOM_ITEM), "input.1.name", "d"),
    "CustomCallItem.input": (_items(CUSTOM_ITEM), "input.1.input", "b"),
    "CustomOutputItem.call_id": (CUSTOM_OUTPUTS, "input.3.call_id", "2"),
    "CustomOutputItem.output": (CUSTOM_OUTPUTS, "input.3.output", "y"),
    "CustomOutputItem.name": (CUSTOM_OUTPUTS, "input.3.name", ABSENT),
    "ThoughtItem.summary": (_items(THOUGHT), "input.1.summary", ABSENT),
    "ThoughtItem.content": (_items(THOUGHT), "input.1.content", ABSENT),
    "ThoughtItem.encrypted_content": (_items(THOUGHT), "input.1.encrypted_content", ABSENT),
    "ThoughtPart.type": (_items(THOUGHT), "input.1.content.0.type", "summary_text"),
    "ThoughtPart.text": (_items(THOUGHT), "input.1.content.0.text", "so"),
    **{
        f"{model}.{name}": (_items(call, {**item, **RETURNED}), f"input.2.{name}", ABSENT)
        for name in RETURNED
        for model, call, item in (
            ("MessageItem", CALL_ITEM, ITEM),
            ("CallItem", CALL_ITEM, CALL_ITEM),
            ("OutputItem", CALL_ITEM, OUTPUT),
            ("CustomCallItem", CUSTOM_ITEM, CUSTOM_ITEM),
            ("CustomOutputItem", CUSTOM_ITEM, CUSTOM_OUTPUT),
            ("ThoughtItem", CALL_ITEM, THOUGHT),
        )
    },
    "TextOptions.format": (TEXT_FORMAT, "text.format", ABSENT),
    "TextOptions.verbosity": (TEXT_FORMAT | {"text": {"verbosity": "medium"}}, "text", ABSENT),
    "SchemaFormat.name": (TEXT_FORMAT, "text.format.name", "m"),
    "SchemaFormat.schema": (TEXT_FORMAT, "text.format.schema", {}),
    "SchemaFormat.description": (TEXT_FORMAT, "text.format.description", ABSENT),
    "SchemaFormat.strict": (TEXT_FORMAT, "text.format.strict", False),
    "FunctionTool.name": ({"tools": FLAT_TOOLS}, "tools.0.name", "h"),
    "FunctionTool.description": ({"tools": FLAT_TOOLS}, "tools.1.description", ABSENT),
    "FunctionTool.parameters": ({"tools": FLAT_TOOLS}, "tools.0.parameters", ABSENT),
    "FunctionTool.strict": ({"tools": [{**FLAT_TOOL, "strict": False}]}, "tools.0.strict", True),
    "CustomTool.name": ({"tools": [FLAT_CUSTOM]}, "tools.0.name", "d"),
    "CustomTool.description": ({"tools": [FLAT_CUSTOM]}, "tools.0.description", ABSENT),
    "CustomTool.format": ({"tools": [FLAT_CUSTOM]}, "tools.0.format", {"type": "text"}),
    "FlatGrammarFormat.syntax": ({"tools": [FLAT_CUSTOM]}, "tools.0.format.syntax", "regex"),
    "FlatGrammarFormat.definition": (
        {"tools": [FLAT_CUSTOM]},
        "tools.0.format.definition",
        'start: "b"',
    ),
    "ChosenCustom.name": (
        {"tools": TWO_FLAT_CUSTOM, "tool_choice": {"type": "custom", "name": "c"}},
        "tool_choice.name",
        "d",
    ),
    "ChosenFunction.name": (FLAT_CHOSEN, "tool_choice.name", "g"),
    "ChosenTools.mode": (FLAT_ALLOWED, "tool_choice.mode", "required"),
    "ChosenTools.tools": (
        FLAT_ALLOWED,
        "tool_choice.tools",
        [{"type": "function", "name": "g"}],
    ),
    "StreamOptions.include_obfuscation": (
        STREAMED | {"stream_options": {"include_obfuscation": False}},
        "stream_options",
        ABSENT,
    ),
    "ReasoningOptions.effort": ({"reasoning": {"effort": "low"}}, "reasoning.effort", "high"),
    "ReasoningOptions.summary": (
        {"reasoning": {"effort": "low", "summary": "auto"}},
        "reasoning.summary",
        ABSENT,
    ),
}
ROWS = {"chat": CHAT, "completions": CONSTRAINTS, "responses": RESPONSES}
