"""Conversions of requests over HTTP, and of answers, without any server."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guided.errors import RequestError
from guided.spec import (
    Alternative,
    Choice,
    Ebnf,
    FinishReason,
    GenerationResult,
    JsonOptions,
    JsonSchema,
    Lark,
    Message,
    Regex,
    Structure,
    TokenId,
    TokenLogprobs,
    Tool,
    ToolCall,
    Usage,
)
from guided.spec.composition import AnyOf, JsonObject
from guided.spec.tagged import Calls, FreeText, Tag, Tagged
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES, LLAMA, ToolFormat
from guided_service.call_reader import Argument, CallBegun, CallReader, Content, Piece, ReaderOf
from guided_service.http.asked import Shown
from guided_service.http.chat_answer import ChatForm, ChatStyle, finish_of
from guided_service.http.logprobs import completion_logprobs
from tests.service.test_http_fields import SCHEMA, TOOL, asked

SHOWN = Shown("id", 0, "m")

# Constraints


def constraint(form: ToolFormat = HERMES, **fields: Any) -> Structure | None:
    request = asked("chat", **fields).request
    if request.tools is None:
        return request.constraint
    return with_calls(request.tools, request.constraint, form)


CLOSED = JsonSchema(json.dumps({**SCHEMA, "additionalProperties": False}, separators=(",", ":")))
OPEN = JsonSchema(json.dumps(SCHEMA, separators=(",", ":")))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, JsonObject()),
        ({"guided_json": SCHEMA}, CLOSED),
        ({"guided_json": json.dumps(SCHEMA)}, CLOSED),
        ({"structured_outputs": {"json": SCHEMA}}, CLOSED),
        ({"structured_outputs": {"json_object": True}}, JsonObject()),
        ({"guided_regex": "a+"}, Regex("a+")),
        ({"structured_outputs": {"regex": "a+"}}, Regex("a+")),
        ({"guided_choice": ["a", "b"]}, Choice(["a", "b"])),
        ({"structured_outputs": {"choice": ["a", "b"]}}, Choice(["a", "b"])),
        ({"guided_grammar": 'root ::= "a"'}, Ebnf('root ::= "a"')),
        ({"guided_grammar": 'start: "a"'}, Lark('start: "a"')),
        (
            {
                "structured_outputs": {
                    "structural_tag": json.dumps(
                        {
                            "type": "structural_tag",
                            "structures": [{"begin": "<a>", "schema": SCHEMA, "end": "</a>"}],
                            "triggers": ["<"],
                        }
                    )
                }
            },
            Tagged([Tag("<a>", CLOSED, "</a>")], "<"),
        ),
        (
            {
                "response_format": {
                    "type": "structural_tag",
                    "structures": [{"begin": "<a>", "schema": SCHEMA, "end": "</a>"}],
                    "triggers": ["<"],
                }
            },
            Tagged([Tag("<a>", CLOSED, "</a>")], "<"),
        ),
        (
            {
                "response_format": {
                    "type": "structural_tag",
                    "format": {"type": "json_schema", "json_schema": SCHEMA},
                }
            },
            CLOSED,
        ),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, CLOSED),
        ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, CLOSED),
    ],
)
def test_constraints_come_from_either_field(
    fields: dict[str, Any], expected: Structure | None
) -> None:
    assert constraint(**fields) == expected


@pytest.mark.parametrize(("strict", "held"), [(None, CLOSED), (True, CLOSED), (False, OPEN)])
def test_strict_says_whether_objects_are_closed(strict: bool | None, held: JsonSchema) -> None:
    named = {"name": "x", "schema": SCHEMA, "strict": strict}
    assert constraint(response_format={"type": "json_schema", "json_schema": named}) == held
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": strict}}
    choice = {"type": "function", "function": {"name": "f"}}
    called = constraint(tools=[tool], tool_choice=choice)
    assert called is not None
    # Texts in arguments are bounded by the budget alone.
    free = JsonSchema(held.text, JsonOptions(max_string_length=None))
    assert free in _all_parts(called)


def _all_parts(structure: Structure) -> list[Structure]:
    return [structure, *(part for inner in structure.inner() for part in _all_parts(inner))]


FREE = {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"tool_choice": "auto"}, Tagged),
        ({}, Tagged),
        ({"tool_choice": "none"}, FreeText),
        ({"tool_choice": "none", **FREE}, JsonObject),
        ({"tool_choice": "auto", **FREE}, AnyOf),
    ],
)
def test_a_choice_of_tools_has_its_constraint(fields: dict[str, Any], kind: type) -> None:
    assert type(constraint(tools=[TOOL], **fields)) is kind


def test_one_call_is_one_call() -> None:
    free = constraint(tools=[TOOL], parallel_tool_calls=False)
    assert isinstance(free, Tagged)
    assert (free.calls, free.parallel) == (Calls.AUTO, False)


# Conversations


def messages(*turns: dict[str, Any], **fields: Any) -> tuple[Message, ...]:
    prompt = asked("chat", **{"messages": list(turns), **fields}).request.prompt
    assert isinstance(prompt, tuple)
    return prompt


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{ "a": 1 }'}}
SENT = ToolCall("f", '{"a":1}', "1")
CALLED = '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'


def test_roles_and_parts_become_what_templates_know() -> None:
    told = messages(
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, {**CALL, "id": "2"}]},
        {"role": "tool", "content": "warm", "tool_call_id": "1"},
        {"role": "tool", "content": "cold", "tool_call_id": "2"},
        {"role": "assistant", "content": "So so.", "refusal": None, "annotations": []},
    )
    assert told == (
        Message("system", "Be kind."),
        Message("user", "ab"),
        Message("assistant", "Let me see.", (SENT, replace(SENT, id="2"))),
        Message("tool", "warm", tool_call_id="1"),
        Message("tool", "cold", tool_call_id="2"),
        Message("assistant", "So so."),
    )


@pytest.mark.parametrize("name", ["none", "auto", "required", "g"])
def test_a_choice_of_a_function_by_its_name_is_never_a_word(name: str) -> None:
    chosen = {"type": "function", "function": {"name": name}}
    listed = {"type": "function", "name": "f", "parameters": SCHEMA}
    for kind, fields in (
        ("chat", {"tools": [TOOL], "tool_choice": chosen}),
        ("responses", {"tools": [listed], "tool_choice": {"type": "function", "name": name}}),
    ):
        with pytest.raises(RequestError, match=f"tool_choice names '{name}', which is none of"):
            asked(kind, **fields)


def test_tools_are_those_of_the_request_and_its_choice() -> None:
    tool = Tool("f", "", json.dumps(SCHEMA))
    for fields, choice, is_parallel in (
        ({}, "auto", True),
        ({"tool_choice": "required", "parallel_tool_calls": False}, "required", False),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "f", True),
    ):
        use = asked("chat", tools=[TOOL], **fields).request.tools
        assert use is not None
        assert (use.choice, use.parallel) == (choice, is_parallel)
        (found,) = use.tools
        assert json.loads(found.parameters) == json.loads(tool.parameters)
        assert replace(found, parameters=tool.parameters) == tool
    assert asked("chat").request.tools is None


def test_responses_say_the_same_of_a_conversation() -> None:
    items = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "input_text", "text": "ab"}]},
        {
            "type": "message",
            "role": "assistant",
            "id": "x",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "2", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "1", "output": "warm"},
        {"type": "function_call_output", "call_id": "2", "output": "cold"},
    ]
    told = asked("responses", input=items).request.prompt
    chat = messages(
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, {**CALL, "id": "2"}]},
        {"role": "tool", "content": "warm", "tool_call_id": "1"},
        {"role": "tool", "content": "cold", "tool_call_id": "2"},
    )
    assert told == chat


def test_arguments_that_are_no_json_are_an_error() -> None:
    for arguments in ("{", '"\\ud800"'):
        bad = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        with pytest.raises(RequestError, match="the arguments of the call '1' are not JSON"):
            messages({"role": "assistant", "content": None, "tool_calls": [bad]})


# Calls in a text

TEXTS = st.lists(
    st.one_of(
        st.text(alphabet=" \n<tol_ca>{}ab", max_size=12).filter(
            lambda text: "<tool_call>" not in text
        ),
        st.tuples(
            st.sampled_from(["f", "weather", "a-b"]),
            st.dictionaries(
                st.text(max_size=3), st.text('}\n</tool_call>"', max_size=20), max_size=2
            ),
        ),
    ),
    max_size=6,
)


def read(pieces: list[str], form: ToolFormat = HERMES, *, beside_json: bool = False) -> list[Piece]:
    reader = CallReader(form, beside_json=beside_json)
    told = [piece for text in pieces for piece in reader.read(text)]
    return [*told, *reader.end()]


def joined(pieces: list[Piece]) -> tuple[str, list[tuple[str, str]]]:
    calls: list[tuple[str, str]] = []
    content = ""
    for piece in pieces:
        match piece:
            case Content(text):
                content += text
            case CallBegun(name):
                calls.append((name, ""))
            case Argument(text):
                calls[-1] = (calls[-1][0], calls[-1][1] + text)
    return content, calls


@settings(max_examples=200)
@given(TEXTS, st.data())
@example(["a <tool_cal", ("f", {}), " l>"], None)
def test_calls_are_read_alike_however_the_text_is_cut(
    parts: list[str | tuple[str, dict[str, str]]], data: st.DataObject | None
) -> None:
    text = "".join(
        part
        if isinstance(part, str)
        else HERMES.call(part[0], json.dumps(part[1], separators=(",", ":")))
        for part in parts
    )
    if any(isinstance(one, str) and isinstance(two, str) for one, two in pairwise(parts)):
        # Two texts in a row may spell a trigger, which the grammar would have prevented.
        parts = [text] if "<tool_call>" not in text else parts
    if data is None:
        cuts = list(range(1, len(text)))
    else:
        cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    edges = [0, *cuts, len(text)]
    content, calls = joined(read([text[a:b] for a, b in pairwise(edges)]))
    expected = [part for part in parts if not isinstance(part, str)]
    if "<tool_call>" in "".join(part for part in parts if isinstance(part, str)):
        return  # no text of the grammar
    assert [(name, json.loads(arguments)) for name, arguments in calls] == expected
    said = "".join(part for part in parts if isinstance(part, str))
    assert content.split() == said.split() or "".join(content.split()) == "".join(said.split())
    if not expected:
        assert content == text


def test_json_beside_calls_is_never_taken_apart() -> None:
    text = json.dumps({"a": CALLED})
    assert joined(read([*text], beside_json=True)) == (text, [])
    assert joined(read([*CALLED], beside_json=True)) == ("", [("f", '{"a":1}')])


def test_a_call_that_breaks_off_is_told_as_far_as_it_came() -> None:
    reader = CallReader(HERMES)
    told = [*reader.read(CALLED[:-15]), *reader.end()]
    assert joined(told)[1] == [("f", '{"a":1')]
    assert reader.is_in_call


# Answers


def test_a_call_is_told_whatever_the_format_of_the_model() -> None:
    shown = replace(SHOWN, tool_format=LLAMA)
    text = LLAMA.call("f", '{"a":1}')
    (choice,) = _choices(ChatForm(style(calls_tools=True), shown).whole(result(text)))
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert choice["finish_reason"] == "tool_calls"


def result(text: str, reason: FinishReason = FinishReason.COMPLETE) -> GenerationResult:
    return GenerationResult(text, (), reason, Usage(prompt_tokens=2, sampled_tokens=3), 1.0)


def style(*, calls_tools: bool = False, **fields: bool) -> ChatStyle:
    def reader(form: ToolFormat) -> ReaderOf | None:
        return partial(CallReader, form) if calls_tools else None

    kinds = ("is_named", "is_structured", "tells_usage", "tells_logprobs")
    told: dict[str, Any] = dict.fromkeys(kinds, False) | fields
    return ChatStyle(reader, **told)


@pytest.mark.parametrize(
    ("reason", "is_structured", "calls", "is_cut", "told"),
    [
        (FinishReason.COMPLETE, True, 0, False, "stop"),
        (FinishReason.STOP, False, 0, False, "stop"),
        (FinishReason.STOP_SEQUENCE, False, 0, False, "stop"),
        (FinishReason.LENGTH, False, 0, False, "length"),
        (FinishReason.DEADLINE, False, 0, False, "length"),
        # A complete answer, which clients would discard.
        (FinishReason.LENGTH_CLOSED, True, 0, False, "stop"),
        (FinishReason.DEADLINE_CLOSED, True, 0, False, "stop"),
        # Truncated free text with a grammar of calls.
        (FinishReason.LENGTH_CLOSED, False, 0, False, "length"),
        (FinishReason.STOP, False, 1, False, "tool_calls"),
        # A truncated call, which must not be made.
        (FinishReason.LENGTH_CLOSED, True, 1, True, "length"),
    ],
)
def test_reasons_are_told_as_clients_expect_them(
    reason: FinishReason, is_structured: bool, calls: int, is_cut: bool, told: str
) -> None:
    said = finish_of(reason, is_structured=is_structured, num_calls=calls, is_cut_call=is_cut)
    assert said == told


@pytest.mark.parametrize(
    ("is_named", "reason", "told"),
    [
        (False, FinishReason.COMPLETE, "tool_calls"),
        (False, FinishReason.LENGTH_CLOSED, "length"),
        # The call is the requested answer.
        (True, FinishReason.LENGTH_CLOSED, "tool_calls"),
    ],
)
def test_a_call_that_the_budget_closed_is_none_to_make(
    is_named: bool, reason: FinishReason, told: str
) -> None:
    form = ChatForm(style(calls_tools=True, is_named=is_named), SHOWN)
    (choice,) = _choices(form.whole(result(CALLED, reason)))
    assert choice["finish_reason"] == told
    assert choice["guided"] == {"finish_reason": reason.value}
    assert choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a":1}'}


def _choices(body: Any) -> list[dict[str, Any]]:
    choices: list[dict[str, Any]] = body["choices"]
    return choices


def test_offsets_of_a_completion_are_those_of_characters() -> None:
    other = Alternative(TokenId(9), b"x", -3.0, -2.0)
    tokens = (
        TokenLogprobs(TokenId(1), "é".encode()[:1], -1.0, -0.5, (other,)),
        TokenLogprobs(TokenId(2), "é".encode()[1:], None, None),
        TokenLogprobs(TokenId(3), b"a", float("-inf"), float("-inf")),
    )
    told = completion_logprobs(tokens)
    assert told["text_offset"] == [0, 0, 1]
    assert told["token_logprobs"] == [-0.5, 0.0, -9999.0]
    assert told["top_logprobs"] == [{"x": -2.0}, {}, {}]


def test_bytes_that_are_no_text_are_characters_of_a_completion_too() -> None:
    alike = (
        Alternative(TokenId(4), b"\xff", -1.0, -1.0),
        Alternative(TokenId(5), b"\xfe", -9.0, -9.0),
    )
    tokens = (
        TokenLogprobs(TokenId(4), b"\xff", -1.0, -1.0, alike),
        TokenLogprobs(TokenId(1), b"a", None, None),
    )
    told = completion_logprobs(tokens)
    assert told["tokens"] == ["\ufffd", "a"]
    assert told["text_offset"] == [0, 1]
    assert told["top_logprobs"] == [{"\ufffd": -1.0}, {}]
