"""Calls with arguments in tags: texts that the grammar accepts are read as the JSON they mean."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from guided.constraint import ConstraintCompiler
from guided.errors import UnsupportedFeatureError
from guided.masks.mask import tokens_of
from guided.spec import GenerationRequest, Message, TokenId, Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import GLM, QWEN_XML, ToolFormat
from guided_service.call_reader import Argument, CallBegun, CallReader, reader_of
from tests.kit.read_calls import read_calls
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary

FORMS = {"qwen_xml": QWEN_XML, "glm": GLM}
PIECES = (*JSON_PIECES, b"\n</parameter>\n", b"</function>\n</tool_call>", b"</arg_value>\n")
VOCABULARY = tiny_vocabulary((*PIECES, b"<tool_call>", b"Oslo"), special=[])
COMPILER = ConstraintCompiler(VOCABULARY)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "unit": {"type": "string", "enum": ["C", "F", '"quoted"']},
        "code": {"$ref": "#/$defs/code"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    },
    "required": ["city", "code", "days"],
    "$defs": {
        "tag": {"type": "string", "maxLength": 4},
        "code": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[^\\d]"},
    },
}
TEXTS = ("city", "unit", "code", "note")
TOOLS = (Tool("forecast", "", SCHEMA), Tool("now"))
REQUEST = GenerationRequest((Message("user", "x"),), tools=ToolUse(TOOLS, "required"))


def walked(form: ToolFormat, rng: random.Random, length: int) -> str:
    """The text of a random answer, closed by the shortest end after a number of tokens."""
    assert REQUEST.tools is not None
    matcher, tokens = COMPILER.start(with_calls(REQUEST.tools, None, form)), list[TokenId]()
    while not matcher.is_complete and len(tokens) < length:
        allowed = [TokenId(int(token)) for token in tokens_of(matcher.mask()) if token]
        if not allowed:
            break
        tokens.append(rng.choice(allowed))
        matcher = matcher.advance(tokens[-1])
    return VOCABULARY.decode([*tokens, *matcher.shortest_completion()]).decode(errors="replace")


def reader(form: ToolFormat) -> CallReader:
    make = reader_of(REQUEST, form)
    assert make is not None
    return make()


def read(text: str, form: ToolFormat, cuts: list[int]) -> list[tuple[str, str]]:
    return read_calls(reader(form), text, cuts)


def by_pattern(text: str, form: ToolFormat) -> list[tuple[str, dict[str, Any]]]:
    """The oracle: tags found by expressions, and values read by the type in the schema."""
    name = r"<function=(\w+)>\n" if form is QWEN_XML else r"(\w+)\n"
    end = r"</function>\n</tool_call>" if form is QWEN_XML else "</tool_call>"
    member = (
        r"<parameter=(\w+)>\n(.*?)\n</parameter>\n"
        if form is QWEN_XML
        else r"<arg_key>(\w+)</arg_key>\n<arg_value>(.*?)</arg_value>\n"
    )
    begin = "<tool_call>\n" if form is QWEN_XML else "<tool_call>"
    calls: list[tuple[str, dict[str, Any]]] = []
    at = 0
    while found := re.compile(begin + name).match(text, at):
        at, arguments = found.end(), {}
        while inner := re.compile(member, re.DOTALL).match(text, at):
            key, value = inner.groups()
            is_text = key in TEXTS and (key, value) != ("note", "null")
            arguments[key] = value if is_text else json.loads(value)
            at = inner.end()
        calls.append((found[1], arguments))
        ended = re.compile(end + r"\n?").match(text, at)
        assert ended
        at = ended.end()
    assert at == len(text)
    return calls


@pytest.mark.parametrize("name", FORMS)
def test_what_the_grammar_lets_stand_is_read_however_it_is_cut(name: str) -> None:
    form, rng = FORMS[name], random.Random(7)
    is_valid, seen = Draft202012Validator(SCHEMA).is_valid, set[str]()
    for _ in range(200):
        text = walked(form, rng, rng.choice([2, 30, 90]))
        cuts = [rng.randrange(len(text) + 1) for _ in range(6)]
        told = [(called, json.loads(said)) for called, said in read(text, form, cuts)]
        assert told == by_pattern(text, form)
        assert told == [
            (called, json.loads(said)) for called, said in read(text, form, [*range(len(text))])
        ]
        for called, arguments in told:
            assert is_valid(arguments) if called == "forecast" else arguments == {}
            seen |= {called, *arguments}
    assert seen >= {"forecast", "now", "city", "days", "unit", "code"}


@pytest.mark.parametrize("name", FORMS)
def test_a_call_is_read_back_as_it_was_written(name: str) -> None:
    form = FORMS[name]
    arguments = {"city": 'O"slo\n<b> </tool_call>', "days": 3, "tags": ["a\nb"], "note": None}
    text = form.call("forecast", json.dumps(arguments))
    for cuts in ([], [*range(len(text))]):
        ((called, told),) = read(text, form, cuts)
        assert (called, json.loads(told)) == ("forecast", arguments)


@pytest.mark.parametrize("name", FORMS)
def test_arguments_are_told_as_they_grow(name: str) -> None:
    """Everything except a possible beginning of the end tag comes at once, as growing JSON."""
    form = FORMS[name]
    assert form.members is not None
    end, one, told = form.members.end, reader(form), ""
    steps = [
        (form.header("forecast") + form.members.header("city"), '{"city":"'),
        ("Os", "Os"),
        ('"lo', '\\"lo'),
        (end[:-1], ""),
        ("é", json.dumps(end[:-1], ensure_ascii=False)[1:-1] + "é"),
        (end[:2], ""),
        (end[2:], '"'),
        (form.members.header("tags"), ',"tags":'),
        ('["a', '["a'),
        ('"]', '"]'),
        (end, ""),
        (form.end, "}"),
    ]
    for text, more in steps:
        pieces = [piece.text for piece in one.read(text) if isinstance(piece, Argument)]
        assert "".join(pieces) == more, text
        assert all(pieces)
        told += more
    assert json.loads(told) == {"city": f'Os"lo{end[:-1]}é', "tags": ["a"]}
    assert not one.is_in_call
    assert one.num_ended == 1


@pytest.mark.parametrize("name", FORMS)
def test_a_text_that_may_be_null_is_held_back_until_it_is_none(name: str) -> None:
    form = FORMS[name]
    assert form.members is not None
    end = form.members.end
    begin = form.header("forecast") + form.members.header("note")
    cases = [
        (["nu", "ll", end[:2], end[2:]], ["", "", "", "null"]),
        (["nu", "l", end], ["", "", '"nul"']),
        (["nu", "b", "s", end], ["", '"nub', "s", '"']),
        (["null", "s", end], ["", '"nulls', '"']),
        (["null" + end[:2], "x", end], ["", f'"null{json.dumps(end[:2])[1:-1]}x', '"']),
        ([end], ['""']),
        (["", end[:1], "é"], ["", '"', f"{json.dumps(end[:1])[1:-1]}é"]),
    ]
    for steps, told in cases:
        one = reader(form)
        assert [piece.text for piece in one.read(begin) if isinstance(piece, Argument)] == [
            '{"note":'
        ]
        for step, more in zip(steps, told, strict=True):
            pieces = [piece.text for piece in one.read(step) if isinstance(piece, Argument)]
            assert "".join(pieces) == more, (steps, step)


@pytest.mark.parametrize("name", FORMS)
def test_of_a_call_that_breaks_off_what_there_is_is_told(name: str) -> None:
    form = FORMS[name]
    assert form.members is not None
    text = form.call("forecast", '{"city": "Oslo", "days": 3}')
    cases = [
        (text[: text.index("days")], '{"city":"Oslo"'),
        (text[: text.index("3")], '{"city":"Oslo","days":'),
        (text[: text.index("slo")], '{"city":"O'),
        (text[: text.index("slo") + 3] + form.members.end[:2], None),
    ]
    for broken, told in cases:
        one = reader(form)
        pieces = [*one.read(broken), *one.end()]
        assert pieces[0] == CallBegun("forecast")
        arguments = "".join(piece.text for piece in pieces if isinstance(piece, Argument))
        held_back = json.dumps(form.members.end[:2])[1:-1]
        assert arguments == (told or f'{{"city":"Oslo{held_back}')
        assert one.is_in_call


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"properties": {}, "minProperties": 1},
            "in the tool f: at /minProperties: the keyword 'minProperties' is not held to "
            "where the model writes arguments in tags; leave it out of the parameters",
        ),
        ({"properties": {}, "required": ["a"]}, "no property says what 'a' is"),
        ({"properties": {"a>": {}}}, "the name 'a>' cannot stand in a tag"),
    ],
)
def test_what_tags_cannot_be_held_to_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=re.escape(message)):
        with_calls(ToolUse((Tool("f", "", schema),)), None, QWEN_XML)
