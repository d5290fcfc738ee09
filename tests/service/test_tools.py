"""Tools over gRPC: requests, the calls that come back, and the conversation that continues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from guided import testing
from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.constraint import ConstraintCompiler, Matcher
from guided.decoding.choice import advance
from guided.errors import (
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
    TokenRejectedError,
)
from guided.spec import (
    Constraint,
    JsonOptions,
    JsonSchema,
    Message,
    Regex,
    TokenId,
    Tool,
    ToolCall,
    ToolUse,
)
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import FORMATS, HERMES, LLAMA, MARK, ToolFormat, strip_marks
from guided_service.call_reader import Argument, CallReader, Piece, calls_in
from tests.kit.tiny_vocabulary import tiny_vocabulary


class Weather(BaseModel):
    """How it is outside.

    Of cities alone.
    """

    city: str
    unit: Literal["C", "F"] = "C"


class Person(BaseModel):
    name: str


STOP = Tool("stop", "Do nothing.")
OSLO = '{"city":"Oslo","unit":"C"}'
CALLED = HERMES.call("Weather", OSLO)


def test_calls_come_apart_from_what_is_said(model_free: testing.Server, asking: Client) -> None:
    text = f"Let me see.\n{CALLED}\n{HERMES.call('stop', '{}')}"
    model_free.reply(text)
    answer = asking.generate("Rain in Oslo?", tools=[Weather, STOP])
    assert (answer.text, answer.content, answer.value) == (text, "Let me see.", None)
    assert [(call.name, call.arguments) for call in answer.tool_calls] == [
        ("Weather", OSLO),
        ("stop", "{}"),
    ]
    ids = [call.id for call in answer.tool_calls]
    assert len({*ids}) == 2
    assert Weather.model_validate_json(answer.tool_calls[0].arguments) == Weather(city="Oslo")
    (request,) = model_free.requests
    assert request.tools is not None
    assert [(tool.name, tool.description) for tool in request.tools.tools] == [
        ("Weather", "How it is outside.\n\nOf cities alone."),
        ("stop", "Do nothing."),
    ]


def test_a_conversation_goes_on_behind_its_calls(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(CALLED, "It rains.")
    asked = [Message("developer", "Be brief."), Message("user", "Rain?")]
    first = asking.generate(asked, tools=[Weather])
    (call,) = first.tool_calls
    told = [*asked, first.message, Message("tool", "wet", tool_call_id=call.id)]
    second = asking.generate(told, tools=[Weather])
    assert (second.content, second.tool_calls, second.value) == ("It rains.", (), "It rains.")
    assert second.message == Message("assistant", "It rains.")
    assert model_free.requests[1].prompt == (*asked, Message("assistant", "", (call,)), told[-1])


def test_an_answer_is_of_its_type_or_calls(model_free: testing.Server, asking: Client) -> None:
    model_free.reply('{"name":"Ada"}', CALLED)
    one, other = (asking.generate("?", Person, tools=[Weather]) for _ in range(2))
    assert (one.value, one.tool_calls) == (Person(name="Ada"), ())
    assert cast("Any", other.value) is None
    assert [call.name for call in other.tool_calls] == ["Weather"]


def test_each_of_several_answers_has_its_calls(model_free: testing.Server, asking: Client) -> None:
    model_free.reply(CALLED, "No.")
    answer = asking.generate("?", tools=[Weather], n=2, temperature=1)
    assert [len(one.tool_calls) for one in answer.candidates] == [1, 0]
    assert [one.content for one in answer.candidates] == ["", "No."]


def test_streams_and_asyncio_have_the_same_answer(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(CALLED)
    with asking.stream("?", tools=[Weather]) as stream:
        assert "".join(stream) == CALLED
    assert [call.arguments for call in stream.answer.tool_calls] == [OSLO]

    async def ask() -> tuple[ToolCall, ...]:
        async with AsyncClient(model_free.address) as connected:
            return (await connected.generate("?", tools=[Weather], tool_choice="stop")).tool_calls

    with pytest.raises(RequestError, match="tool_choice names 'stop', which is none of the tools"):
        asyncio.run(ask())


def test_where_no_tool_may_be_called_all_of_an_answer_is_content(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply(" No.\n", '{"name":"Ada"}', "No.", "Yes.")
    said = asking.generate("?", tools=[STOP], tool_choice="none")
    assert (said.content, said.message.content, said.tool_calls) == (" No.\n", " No.\n", ())
    document = asking.generate("?", Person, tools=[STOP], tool_choice="none")
    assert (document.content, document.value) == ('{"name":"Ada"}', Person(name="Ada"))
    several = asking.generate("?", tools=[STOP], tool_choice="none", n=2, temperature=1)
    assert [one.content for one in several.candidates] == ["No.", "Yes."]


@pytest.mark.parametrize("stop", ["Oslo", "Weather", '"unit', "</tool"])
def test_a_call_that_a_stop_breaks_off_is_none(
    model_free: testing.Server, asking: Client, stop: str
) -> None:
    model_free.reply(f"See.\n{CALLED}", *[f"{HERMES.call('stop', '{}')}\n{CALLED}"] * 2)
    alone = asking.generate("?", tools=[Weather, STOP], stop=[stop])
    assert (alone.tool_calls, alone.message) == ((), Message("assistant", "See."))
    assert alone.text == f"See.\n{CALLED}".partition(stop)[0]
    if stop == "</tool":
        return
    behind = asking.generate("?", tools=[Weather, STOP], stop=[stop], n=2, temperature=1)
    for calls in (behind.tool_calls, *(one.tool_calls for one in behind.candidates)):
        assert [call.name for call in calls] == ["stop"]
    assert behind.message.tool_calls == behind.tool_calls


def test_a_choice_is_held(model_free: testing.Server, asking: Client) -> None:
    shortest = {
        "auto": "",
        "none": "",
        "required": HERMES.call("stop", "{}"),
        "Weather": HERMES.call("Weather", '{"city":""}'),
        "stop": HERMES.call("stop", "{}"),
    }
    for choice, text in shortest.items():
        answer = asking.generate("?", tools=[Weather, STOP], tool_choice=choice)
        assert answer.text == text
    model_free.reply(CALLED)
    with pytest.raises(RequestError, match="is no answer to this request"):
        asking.generate("?", tools=[Weather], tool_choice="none")
    model_free.reply(f"{CALLED}\n{CALLED}")
    with pytest.raises(RequestError, match="is no answer to this request"):
        asking.generate("?", tools=[Weather], parallel_tool_calls=False)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tools": [{"type": "custom", "custom": {"name": "f", "strict": True}}]},
            "the custom tool 0 has a member other than name, description and format",
        ),
        ({"tools": [3]}, "tool 0 is 3, which is no tool; pass a function, a pydantic model"),
        ({"tools": [Weather, Weather]}, "two tools have the name 'Weather'"),
        ({"tools": [Tool("none")]}, "no tool may have the name 'none'"),
        ({"tool_choice": "required"}, "tool_choice needs tools"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls needs tools"),
        ({"tools": [STOP], "prompt": RawPrompt("x")}, "tools need messages, in which the model is"),
        ({"tools": [STOP], "grammar": Regex("a")}, "the answer beside tools is not JSON"),
        (
            {"tools": [Tool("f", "", '{"type":"array"}')]},
            "in tools.f.parameters: no arguments fit, so the tool cannot be called: they are "
            "of type 'array', no object; correct its parameters, or leave the tool out",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "more": 1}}]},
            "the function of tool 0 has a member other than name, description, parameters and",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": "no"}}]},
            "the function of tool 0 has a member other than name, description, parameters and",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f"}, "strict": False}]},
            "tool 0 is {'type': 'function', 'function': {'name': 'f'}, 'strict': False}, which is "
            "no tool",
        ),
    ],
)
def test_what_is_wrong_with_tools_is_told_before_anything_is_sent(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        Request(**{"prompt": "x", **options})
    assert str(caught.value).startswith(message)
    with pytest.raises(RequestError, match="an answer that may call tools cannot be read in parts"):
        Request("x", Person, tools=[STOP]).partials()
    with pytest.raises(RequestError, match="the name 'a b' of a tool is not of"):
        Tool("a b")
    with pytest.raises(InvalidConstraintError, match="the parameters of the tool f are not JSON:"):
        Tool("f", "", "{")
    with pytest.raises(
        InvalidConstraintError, match="the parameters of the tool f are no JSON Sch"
    ):
        Tool("f", "", "[]")
    with pytest.raises(LimitExceededError, match="the parameters of the tool f nest deeper than"):
        Tool("f", "", '{"not":' * 300 + "{}" + "}" * 300)
    with pytest.raises(LimitExceededError, match="the arguments of the call 'f' nest deeper than"):
        Message("assistant", "", (ToolCall("f", '{"a":' * 300 + "{}" + "}" * 300),))
    with pytest.raises(LimitExceededError, match="there are 129 tools, above the limit of 128"):
        ToolUse((STOP,) * 129)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tool(cast("Any", None)), "the name None of a tool is not of 1 to 64 letters"),
        (lambda: Tool("f", cast("Any", 3)), "the description of the tool f is 3, no str"),
        (lambda: Tool("f", "", cast("Any", 3)), "the parameters of the tool f are 3; pass a map"),
        (lambda: Tool("f", "", "{}", cast("Any", "no")), "strict of the tool f is 'no', no bool"),
        (
            lambda: Tool("f", "", {"maximum": float("nan")}),
            "the parameters of the tool f are not JSON: ",
        ),
        (
            lambda: Tool("f", "", '{"maximum": NaN}'),
            "the parameters of the tool f are not JSON: NaN is no number of JSON",
        ),
        (lambda: ToolCall(cast("Any", None), "{}"), "the name of a call is None, no str"),
        (lambda: ToolCall("f", "{}", cast("Any", 1)), "the id of a call is 1, no str"),
        (lambda: ToolCall("f", cast("Any", [1])), "the arguments of the call 'f' are [1]; pass"),
        (
            lambda: ToolCall("f", {"a": {1}}, "c"),
            "the arguments of the call 'c' are not JSON: Object of type set",
        ),
        (
            lambda: Message("assistant", "", cast("Any", [{"name": "f"}])),
            "a call is {'name': 'f'}, which is no guided.ToolCall; write guided.ToolCall(name, ",
        ),
        (lambda: Message("assistant", "", cast("Any", None)), "tool_calls is None, no tuple of"),
        (
            lambda: Message("assistant", "", (ToolCall("f", '{"a": -Infinity}'),)),
            "the arguments of the call 'f' are no JSON object",
        ),
        (lambda: Message("tool", "", (), cast("Any", 3)), "the id 3 of a call is not of up to"),
        (lambda: Message("assistant", "", reasoning=cast("Any", 3)), "reasoning is 3, no text"),
    ],
)
def test_what_is_of_another_type_or_no_json_is_refused_by_us(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_mappings_are_kept_as_text() -> None:
    schema = {"type": "object", "properties": {"é": {}}}
    text = '{"type": "object", "properties": {"é": {}}}'
    assert Tool("f", "F.", schema) == Tool("f", "F.", text)
    assert Tool("f", "F.", MappingProxyType(schema)).parameters == text
    assert replace(Tool("f", "F.", schema), strict=False) == Tool("f", "F.", text, False)
    call = ToolCall("f", {"é": [1]}, "c")
    assert call == ToolCall("f", '{"é": [1]}', "c")
    assert Message("assistant", "", (call,)).tool_calls == (call,)
    assert repr(ToolCall("f", {})) == "ToolCall(name='f', arguments='{}', id='')"


def test_a_mapping_is_a_tool_as_openai_writes_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    described = {"name": "f", "description": "F.", "parameters": schema, "strict": False}
    use = Request("x", tools=[{"type": "function", "function": described}]).specification.tools
    assert use == ToolUse((Tool("f", "F.", json.dumps(schema), False),))


# The grammar and its reader, in each format

ASKED = ToolUse((Tool("f", "", '{"properties":{"a":{"type":"string"}},"required":["a"]}'), STOP))
DOCUMENT = JsonSchema('{"type":"object"}')


def text_of(form: ToolFormat, *calls: tuple[str, str]) -> str:
    between = "?" if form.separator is None else form.separator
    return between.join(form.call(*call) for call in calls)


_SPECIAL = sorted({name for form in FORMATS.values() for name in form.special_tokens})
_TOKENS = tiny_vocabulary(special=_SPECIAL)
COMPILER = ConstraintCompiler(_TOKENS)


def takes(start: Matcher, text: str) -> bool:
    """Whether a text may be an answer, special tokens where their names are marked."""
    tokens: list[TokenId] = []
    for at, piece in enumerate(text.split(MARK)):
        spelled = [_TOKENS.byte_ids[byte] for byte in piece.encode()]
        tokens += [_TOKENS.named[piece]] if at % 2 else spelled
    try:
        return advance(start, tokens).is_accepting
    except TokenRejectedError:
        return False


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("use", "beside", "calls", "is_taken"),
    [
        (ASKED, None, [("f", '{"a":"}"}')], True),
        (ASKED, None, [("f", '{"a":""}'), ("stop", "{}")], "parallel"),
        (ASKED, None, [("f", '{"b":""}')], False),
        (ASKED, None, [("g", "{}")], False),
        (ASKED, DOCUMENT, [("stop", "{}")], True),
        (ToolUse(ASKED.tools, "required"), None, [("stop", "{}")], True),
        (ToolUse(ASKED.tools, "f"), None, [("stop", "{}")], False),
        (ToolUse(ASKED.tools, "f"), DOCUMENT, [("f", '{"a":""}')], True),
        (ToolUse(ASKED.tools, "none"), None, [("stop", "{}")], False),
        (ToolUse(ASKED.tools, "auto", False), None, [("stop", "{}"), ("stop", "{}")], False),
    ],
)
def test_the_grammar_takes_calls_that_are_allowed(
    name: str,
    use: ToolUse,
    beside: Constraint,
    calls: list[tuple[str, str]],
    is_taken: bool | str,
) -> None:
    form = FORMATS[name]
    start = COMPILER.start(with_calls(use, beside, form))
    expected = form.separator is not None if is_taken == "parallel" else is_taken
    is_text_taken = use.choice in ("auto", "none") and beside is None
    assert takes(start, text_of(form, *calls)) == expected
    assert takes(start, strip_marks(text_of(form, *calls))) == (
        expected if not form.special_tokens else not form.before_content and is_text_taken
    )
    assert takes(start, form.before_content + "Let me see.") == is_text_taken
    assert takes(start, form.before_content + '{"name":"f"}') == (
        (beside is not None and use.choice == "auto") or is_text_taken
    )


def test_documents_with_blanks_are_not_told_from_calls_that_are_documents() -> None:
    spaced = JsonSchema("true", JsonOptions(whitespace=1))
    with pytest.raises(
        RequestError, match="a document with white space cannot be told from a tool call"
    ):
        with_calls(ASKED, spaced, LLAMA)
    with_calls(ASKED, spaced, HERMES)


JSON_FORMATS = {n: form for n, form in FORMATS.items() if not (form.members or form.quote)}
"""Formats with JSON arguments; for others see test_member_calls and test_literal_calls."""
ARGUMENTS = st.dictionaries(st.text(max_size=3), st.text('{}"\\ \n</tool_call>', max_size=9))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([*JSON_FORMATS]),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["f", "a.b-c"]), ARGUMENTS), max_size=3),
    st.data(),
)
def test_calls_are_read_as_they_were_written_however_they_are_cut(
    name: str, is_beside: bool, calls: list[tuple[str, dict[str, str]]], data: st.DataObject
) -> None:
    form = FORMATS[name]
    written = [(each, json.dumps(said, separators=(",", ":"))) for each, said in calls]
    if form.separator is None:
        written = written[:1]
    said = '{"name":"f"}' if is_beside else 'No call here: {"name'
    text = text_of(form, *written) or form.before_content + said
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    reader = CallReader(form, beside_json=is_beside)
    pieces = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    told = [piece for part in pieces for piece in reader.read(part)]
    told += reader.end()
    whole = CallReader(form, beside_json=is_beside)
    content, found = calls_in(text, whole)
    assert [(call.name, call.arguments) for call in found] == written
    assert content == ("" if written else said)
    assert reader.num_calls == len(written)
    whole_told = "".join(getattr(piece, "text", "") for piece in told)
    assert whole_told == "".join(arguments for _, arguments in written) + content
    assert not reader.is_in_call


class Watching(CallReader):
    """Notes how much text it held."""

    most = 0

    def read(self, text: str) -> Iterator[Piece]:
        self.most = max(self.most, len(self._text) + len(text))
        return super().read(text)


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_of_a_long_text_little_is_held_at_once(name: str) -> None:
    """Cutting each call off all the rest would take the square of the length."""
    form = FORMATS[name]
    if form.separator is None:
        return
    written = [("f", json.dumps({"a": number})) for number in range(2000)]
    text = form.separator.join(form.call(*each) for each in written)
    reader = Watching(form)
    content, found = calls_in(text, reader)
    assert [(call.name, call.arguments) for call in found] == written
    assert content == ""
    assert reader.most < 10_000 < len(text)


def test_a_call_that_breaks_off_is_told_as_far_as_it_came() -> None:
    for form in JSON_FORMATS.values():
        reader = CallReader(form)
        _, (call,) = calls_in(form.header("f") + '{"a":"b', reader)
        assert call.arguments == '{"a":"b'
        assert reader.is_in_call


@pytest.mark.parametrize("name", JSON_FORMATS)
@pytest.mark.parametrize("arguments", ['{"a":{"b":1}}', '{"a":"}"}', r'{"a":"\"}\\"}', "{}"])
def test_a_call_has_ended_where_all_of_it_came_and_nowhere_before(
    name: str, arguments: str
) -> None:
    """Text breaks off at a stop string, also after a brace that looks like the end of a call."""
    form = FORMATS[name]
    text = form.call("w", arguments)
    begins = len(form.header("w"))
    for length in range(begins, len(text) + 1):
        reader = CallReader(form)
        told = [*reader.read(text[:length]), *reader.end()]
        assert reader.is_in_call == (length < len(text)), text[:length]
        said = "".join(piece.text for piece in told if isinstance(piece, Argument))
        assert said == (text[begins:length] if reader.is_in_call else arguments)


def test_a_schema_that_cannot_be_enforced_names_its_tool(asking: Client) -> None:
    tool = Tool("f", "", '{"properties":{"a":{"pattern":"("}}}')
    with pytest.raises(InvalidConstraintError, match="f"):
        asking.generate("?", tools=[tool])
