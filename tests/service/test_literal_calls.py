"""Calls with bare names and texts between special tokens: accepted ones are read as JSON."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from guided.constraint.machine import machine_of
from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.grammar.composition import lower_composition
from guided.spec import Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import GEMMA, MARK, ToolFormat, mark
from guided_service.call_reader import Argument, CallBegun
from tests.kit.literal_calls import FORMS, is_let_stand, reader_for, walked
from tests.kit.read_calls import read_calls

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "unit": {"enum": ["C", "F", 3, None, {"a": "}", "b": [True, "é"]}, [1, 2]]},
        "code": {"$ref": "#/$defs/code"},
        "Days": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        "many": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        "tree": {"allOf": [{"$ref": "#/$defs/tree"}], "description": "Of trees."},
        "shape": {"oneOf": [{"$ref": "#/$defs/dot"}, {"$ref": "#/$defs/line"}]},
        "never": False,
    },
    "required": ["city", "code"],
    "$defs": {
        "tag": {"type": "string", "maxLength": 4},
        "code": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[^\\d]"},
        "tree": {
            "type": "object",
            "properties": {
                "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
                "value": {"type": ["number", "string", "null"], "minimum": 0, "maxLength": 1},
            },
        },
        "dot": {
            "type": "object",
            "properties": {"kind": {"const": "dot"}, "x": {"type": "number"}},
            "required": ["kind"],
        },
        "line": {
            "type": "object",
            "properties": {"kind": {"const": "line"}, "y": {"type": "number"}},
            "required": ["kind", "y"],
        },
    },
}
USE = ToolUse((Tool("forecast", "", SCHEMA), Tool("now")), "required")


def read(text: str, form: ToolFormat, cuts: list[int]) -> list[tuple[str, str]]:
    return read_calls(reader_for(USE, form), text, cuts)


def by_marks(text: str, form: ToolFormat) -> list[tuple[str, Any]]:
    """The oracle: texts are taken out first, so that only brackets, names and words are left."""
    begin, end = re.escape(form.before_name), re.escape(form.end)
    calls = re.findall(rf"{begin}([^{{]*){{(.*?){end}", text, re.DOTALL)
    assert "".join(f"{form.header(name)}{said}{form.end}" for name, said in calls) == text
    found = []
    for name, said in calls:
        plain, texts = "", list[str]()
        for number, part in enumerate(said.split(form.quote)):
            texts += [part] if number % 2 else []
            plain += f'"\x02{len(texts) - 1}"' if number % 2 else part
        quoted = re.sub(r"([{,])([A-Za-z]\w*):", r'\1"\2":', f"{{{plain}}}")
        found.append((name, _filled(json.loads(quoted, strict=False), texts)))
    return found


def _filled(value: Any, texts: list[str]) -> Any:
    match value:
        case dict():
            return {name: _filled(each, texts) for name, each in value.items()}
        case list():
            return [_filled(each, texts) for each in value]
        case str():
            return texts[int(value.removeprefix("\x02"))]
    return value


@pytest.mark.parametrize("name", FORMS)
def test_what_the_grammar_lets_stand_is_read_however_it_is_cut(name: str) -> None:
    form, rng = FORMS[name], random.Random(7)
    is_valid, seen = Draft202012Validator(SCHEMA).is_valid, set[str]()
    for _ in range(200):
        text = walked(USE, form, rng, rng.choice([2, 30, 90]))
        cuts = [rng.randrange(len(text) + 1) for _ in range(6)]
        told = [(called, json.loads(said)) for called, said in read(text, form, cuts)]
        assert told == by_marks(text, form)
        assert told == [
            (called, json.loads(said)) for called, said in read(text, form, [*range(len(text))])
        ]
        for called, arguments in told:
            assert is_valid(arguments) if called == "forecast" else arguments == {}
            seen |= {called, *arguments}
    assert seen == {"forecast", "now", *SCHEMA["properties"]} - {"never"}


ARGUMENTS: list[dict[str, Any]] = [
    {"city": 'O"slo\n<b> {a:1}', "code": "x}", "Days": 3, "note": None},
    {"city": "", "code": "ab", "tags": ["a\nb", ","], "many": [True, False, True]},
    {"city": "é", "code": "ab", "unit": {"a": "}", "b": [True, "é"]}},
    {"city": "é", "code": "ab", "unit": [1, 2], "shape": {"kind": "line", "y": -0.5}},
    {"city": "é", "code": "ab", "tree": {"kids": [{"kids": []}, {"value": "1"}], "value": 1}},
]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_call_is_let_stand_and_read_back_as_it_was_written(
    name: str, arguments: dict[str, Any]
) -> None:
    form = FORMS[name]
    assert Draft202012Validator(SCHEMA).is_valid(arguments)
    text = form.call("forecast", json.dumps(arguments))
    machine = machine_of(with_calls(USE, None, form))
    assert is_let_stand(machine, text)
    for cuts in ([], [*range(len(text))]):
        ((called, told),) = read(text, form, cuts)
        assert (called, json.loads(told)) == ("forecast", arguments)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"city": "a"}, "a member is missing"),
        ({"city": "a", "code": "ab", "Days": 10}, "the number is too large"),
        ({"city": "a", "code": "1b"}, "the text has another form"),
        ({"city": "a", "code": "ab", "note": "1234"}, "the text is too long"),
        ({"city": "a", "code": "ab", "tags": []}, "too few items"),
        ({"city": "a", "code": "ab", "tags": ["a", "b", "c"]}, "too many items"),
        ({"city": "a", "code": "ab", "many": [True]}, "too few items"),
        ({"city": "a", "code": "ab", "unit": [1]}, "not listed"),
        ({"city": "a", "code": "ab", "shape": {"kind": "line"}}, "a member is missing"),
        ({"city": "a", "code": "ab", "other": 1}, "no such member"),
        ({"city": "a", "code": "ab", "never": 1}, "a member that nothing fits"),
        ({"city": f"a{MARK}b", "code": "ab"}, "the text has a mark"),
        ({"city": "a", "code": f"a{MARK}b"}, "the text has a mark"),
    ],
)
def test_what_does_not_fit_is_not_let_stand(arguments: dict[str, Any], why: str) -> None:
    machine = machine_of(with_calls(USE, None, GEMMA))
    assert not is_let_stand(machine, GEMMA.call("forecast", json.dumps(arguments))), why


def test_members_stand_in_the_order_of_their_names_whatever_their_letters() -> None:
    arguments = json.dumps({"city": "a", "code": "ab", "Days": 3, "note": None})
    assert GEMMA.call("f", arguments) == (
        f"{mark('<|tool_call>')}call:f{{"
        f"city:{GEMMA.quote}a{GEMMA.quote},code:{GEMMA.quote}ab{GEMMA.quote},Days:3,note:null"
        f"}}{mark('<tool_call|>')}"
    )


def test_arguments_are_told_as_they_grow() -> None:
    one, told = reader_for(USE, GEMMA), ""
    steps = [
        (GEMMA.header("forecast") + "ci", ""),
        ("ty:", '{"city":'),
        (GEMMA.quote[:2], ""),
        (GEMMA.quote[2:] + "Os", '"Os'),
        ('"lo', '\\"lo'),
        (GEMMA.quote, '"'),
        (",tree:{kids:[{", ',"tree":{"kids":[{'),
        ("value:1", '"value":1'),
        ("}]}", "}]}"),
        ("}", ""),
        (GEMMA.end[1:], "}"),
    ]
    for text, more in steps:
        pieces = [piece.text for piece in one.read(text) if isinstance(piece, Argument)]
        assert "".join(pieces) == more, text
        told += more
    assert json.loads(told) == {"city": 'Os"lo', "tree": {"kids": [{"value": 1}]}}
    assert not one.is_in_call
    assert one.num_ended == 1


@pytest.mark.parametrize(
    ("end", "told"),
    [("Days", '{"city":"Oslo",'), ("3", '{"city":"Oslo","Days":'), ("slo", '{"city":"O')],
)
def test_of_a_call_that_breaks_off_what_there_is_is_told(end: str, told: str) -> None:
    text = GEMMA.call("forecast", '{"city": "Oslo", "Days": 3}')
    one = reader_for(USE, GEMMA)
    pieces = [*one.read(text[: text.index(end)]), *one.end()]
    assert pieces[0] == CallBegun("forecast")
    assert "".join(piece.text for piece in pieces if isinstance(piece, Argument)) == told
    assert one.is_in_call


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"$ref": "#/$defs/none", "$defs": {"none": {"type": "object"}}},
        {"allOf": [{"type": "object"}]},
        {"allOf": [{"type": "object"}], "properties": {}, "required": [], "not": False},
    ],
)
def test_a_tool_whose_schema_names_no_member_takes_no_arguments(schema: dict[str, Any]) -> None:
    machine = machine_of(with_calls(ToolUse((Tool("f", "", schema),)), None, GEMMA))
    assert is_let_stand(machine, GEMMA.call("f", "{}"))
    assert not is_let_stand(machine, GEMMA.call("f", '{"a": 1}'))


UNHELD = "where the model writes arguments without the quotes of JSON; leave it out"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"properties": {}, "minProperties": 1},
            "in the tool f: at /minProperties: the keyword 'minProperties' is not held to "
            + UNHELD,
        ),
        ({"properties": {}, "required": ["a"]}, f"no property says what 'a' is {UNHELD}"),
        ({"properties": {"a:": {}}}, "the name 'a:' cannot stand without quotes"),
        ({"properties": {"a": {}}}, "at /properties/a: an object is not held to names"),
        ({"properties": {"a": True}}, "at /properties/a: an object is not held to names"),
        ({"properties": {"a": {"type": "array"}}}, "/a/items: nothing says what the items are"),
        (
            {"properties": {"a": {"type": "array", "items": {}, "uniqueItems": True}}},
            "at /properties/a/uniqueItems: the keyword 'uniqueItems' is not held to",
        ),
        (
            {"properties": {"a": {"type": "array", "minItems": 3, "maxItems": 2}}},
            "no array has 3 to 2 items",
        ),
        ({"properties": {"a": False}, "required": ["a"]}, "at /properties/a: no value fits"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}, "at the root: no object fits"),
        ({"$ref": "#/$defs/a", "$defs": {"a": False}}, "at the root: no object fits"),
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "at /$defs/a: a schema that stands for itself is not held to",
        ),
        (
            {"properties": {"a": {"$id": "https://example.org/a", "type": "string"}}},
            "a part with an $id of its own is not looked into",
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"a": {"$ref": "#/definitions/a", "type": "string"}},
                "definitions": {"a": {"type": "object"}},
            },
            "at /properties/a: what stands beside $ref says nothing in this draft",
        ),
        (
            {
                "properties": {
                    "a": {"oneOf": [{"type": ["object", "array"]}, {"type": "object"}]},
                },
            },
            "nothing tells the alternatives apart",
        ),
        (
            {"properties": {"a": {"anyOf": [{"type": "object"}], "maxItems": 3}}},
            "at /properties/a/maxItems: the keyword 'maxItems' is not held to beside 'anyOf'",
        ),
        (
            {"properties": {"a": {"$ref": "https://example.org/a"}}},
            "'https://example.org/a' names no part of the parameters by a JSON pointer",
        ),
        (
            {"properties": {"a": {"oneOf": [{"type": "object"}, {"type": "object"}]}}},
            "at /properties/a/oneOf: nothing tells the alternatives apart",
        ),
        ({"properties": {"a": {"const": {"b:": 1}}}}, "the name 'b:' cannot stand"),
        (
            {"properties": {"a": {"enum": [{"b": 1}], "required": ["c"]}}},
            "at /properties/a/required: the keyword 'required' is not held to beside 'enum'",
        ),
        (
            {"properties": {"a": {"const": [1], "enum": [[2]]}}},
            "at /properties/a/const: the keyword 'const' is not held to beside 'enum'",
        ),
    ],
)
def test_what_bare_names_cannot_be_held_to_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=re.escape(message)):
        with_calls(ToolUse((Tool("f", "", schema),)), None, GEMMA)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": 3}, "at /properties: properties is 3, not an object of schemas"),
        ({"properties": {"a": {"anyOf": []}}}, "at /properties/a/anyOf: anyOf is [], not a list"),
        ({"properties": {"a": {"type": 3}}}, "at /properties/a/type: type is 3, not a type"),
        ({"properties": {"a": {"type": "strng"}}}, 'at /properties/a/type: type is "strng", not'),
        ({"properties": {"a": {"type": [{}]}}}, "at /properties/a/type: type is [{}], not a type"),
        ({"properties": {"a": {"allOf": {"b": {}}}}}, 'allOf is {"b":{}}, not a list of schemas'),
        (
            {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": 5}},
            "/$defs/b: 5 is no schema",
        ),
        (
            {"properties": {"a": {"type": "array", "items": {}, "minItems": 1.5}}},
            "at /properties/a/minItems: minItems is 1.5, not a number",
        ),
        ({"required": [1]}, "required is [1], not a list of names"),
    ],
)
def test_a_schema_that_is_none_is_refused_where_it_goes_wrong(schema: Any, message: str) -> None:
    with pytest.raises(InvalidConstraintError, match=re.escape(message)):
        with_calls(ToolUse((Tool("f", "", schema),)), None, GEMMA)


NODE = {
    "type": "object",
    "properties": {
        "v": {"type": "boolean"},
        "next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
    },
    "required": ["v", "next"],
}
LISTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/N"}}]}
CLOSED = {
    "type": "object",
    "properties": {"x": {"type": "null"}},
    "additionalProperties": False,
}
CHAIN = {f"c{n}": {"anyOf": [{"$ref": f"#/$defs/c{n + 1}"}, {"type": "null"}]} for n in range(95)}


@pytest.mark.parametrize(
    ("schema", "definitions", "values"),
    [
        ({"$ref": "#/$defs/N"}, {"N": NODE}, [{"v": True, "next": {"v": False, "next": None}}]),
        (NODE, {"N": NODE}, [{"v": True, "next": {"v": False, "next": {"v": True, "next": None}}}]),
        (
            {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]},
            {"N": LISTS},
            [[[], ["a", [["b"]]]]],
        ),
        ({"$ref": "#/$defs/c0"}, {**CHAIN, "c95": {"type": "integer"}}, [None, 3]),
        ({"enum": []}, {}, []),
        ({"$ref": "#/$defs/no"}, {"no": False}, []),
        ({"type": "array", "items": {"enum": []}}, {}, [[]]),
        (
            CLOSED | {"x-of-ours": 3},
            {},
            [{"x": None}],
        ),
        (
            {"type": "array", "items": {"type": "null"}, "uniqueItems": False, "nullable": 1},
            {},
            [[None, None]],
        ),
        (
            {"oneOf": [CLOSED | {"type": ["object", "array"], "items": False}]},
            {},
            [[], {"x": None}],
        ),
        ({"$ref": "#/$defs/a%20b~1%25"}, {"a b/%": {"type": "integer"}}, [3]),
        (
            {"$ref": "#/$defs/N", "minLength": 2, "minItems": 0, "maximum": 3, "items": True},
            {"N": {**CLOSED, "type": ["object", "string", "integer"]}},
            [{"x": None}, "ab", 3],
        ),
        (
            {"allOf": [{"$ref": "#/$defs/N"}], "additionalProperties": True, "pattern": "b"},
            {"N": LISTS | {"additionalProperties": True}},
            [["a", ["b"]], "ab"],
        ),
    ],
)
def test_what_schemas_say_in_other_ways_is_held_to(
    schema: dict[str, Any], definitions: dict[str, Any], values: list[object]
) -> None:
    """Recursion in place of a member and of an alternative; impossible parts are left out."""
    whole = {"properties": {"a": schema}, "$defs": definitions, "additionalProperties": False}
    machine = machine_of(with_calls(ToolUse((Tool("f", "", whole),), "required"), None, GEMMA))
    is_valid = Draft202012Validator(whole).is_valid
    tried = [*values, None, [], {}, [[]], [None], "a", 3, {"v": True, "next": None}, {"x": None}]
    for value in tried:
        is_let = is_let_stand(machine, GEMMA.call("f", json.dumps({"a": value})))
        assert is_let == (is_valid({"a": value})), value
    assert all(is_valid({"a": value}) for value in values)
    assert is_let_stand(machine, GEMMA.call("f", "{}"))


def test_equal_members_of_many_tools_are_compiled_once() -> None:
    member = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "title": "One"}
    tools = [
        Tool(
            f"f{n}", "", {"properties": {f"m{k}": member | {"title": f"{n} {k}"} for k in range(9)}}
        )
        for n in range(100)
    ]
    constraint = with_calls(ToolUse(tuple(tools), "required"), None, GEMMA)
    assert len(lower_composition(constraint).holes) == 1


def test_alternatives_that_share_their_parts_are_written_once() -> None:
    """Each level refers to the next one twice: written out, there would be 2 to the power of 40."""
    levels: dict[str, Any] = {
        f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]}
        for n in range(40)
    }
    levels["l40"] = {"type": "object", "properties": {"x": {"type": "boolean"}}}
    schema = {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels}
    constraint = with_calls(ToolUse((Tool("f", "", schema),), "required"), None, GEMMA)
    assert len(lower_composition(constraint).grammar.rules) < 100
    assert is_let_stand(machine_of(constraint), GEMMA.call("f", '{"a":{"x":true}}'))
