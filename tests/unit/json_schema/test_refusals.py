"""Schemas without a document, exceeded limits, and bytes that cannot be spelled."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import InvalidConstraintError, LimitExceededError, UnsatisfiableError
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import lower_json_schema
from guided.machine.parts import RecognizerLimits
from guided.runtime.work_budget import limited_work
from guided.spec import JsonOptions, JsonSchema
from tests.unit.json_schema.documents import Schema, accepts, machine_of

EMPTY: list[Schema] = [
    False,
    {"type": "array", "minItems": 10_001, "maxItems": 5},
    {"type": "object", "minProperties": 1_001, "maxProperties": 5},
    {"not": {}},
    {"type": "string", "const": 1},
    {"enum": [1, 2], "minimum": 3},
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "string", "pattern": "^a$", "minLength": 2},
    {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
    {"type": "integer", "minimum": 3, "maximum": 2},
    {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    {"type": "integer", "multipleOf": 10, "minimum": 1, "maximum": 9},
    {"type": "number", "const": 1, "not": {"type": "integer"}},
    {"type": "object", "required": ["a"], "maxProperties": 0},
    {"type": "object", "required": ["a"], "properties": {"a": False}},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    {"type": "object", "required": ["b"], "propertyNames": {"pattern": "^a"}},
    {"type": "object", "minProperties": 3, "propertyNames": {"enum": ["a", "b"]}},
    {"type": "object", "minProperties": 3, "patternProperties": {"^(a|b)$": {}},
     "additionalProperties": False},
    {"type": "object", "minProperties": 2, "maxProperties": 1},
    {"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"]},
     "properties": {"b": False}},
    {"type": "object", "required": ["a"], "not": {"required": ["a"]}},
    {"type": "object", "not": {"minProperties": 0}},
    {"type": "array", "minItems": 2, "maxItems": 1},
    {"type": "array", "minItems": 1, "items": False},
    {"type": "array", "minItems": 3, "prefixItems": [{}, {}], "items": False},
    {"type": "array", "contains": {"const": 1}, "items": {"const": 2}},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 1},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "uniqueItems": True},
    {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "boolean"}},
    {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["a", "b"]}},
    {"type": "array", "unevaluatedItems": False, "minItems": 1},
    {"oneOf": [{"type": "integer"}, {"type": "integer"}]},
    {"oneOf": [{}, True]},
    {"if": {"type": "string"}, "then": False, "else": False},
    {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}},
    {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
    {"type": "object", "unevaluatedProperties": False, "minProperties": 1},
]  # fmt: skip


CROSSED: Schema = {"type": "integer", "minimum": 5, "maximum": 3}

EMPTY_PARTS: list[tuple[Schema, str]] = [
    (CROSSED, ""),
    ({"type": "object", "required": ["a"], "properties": {"a": CROSSED}}, "/properties/a"),
    # The innermost: its parents have no value either.
    ({"type": "object", "required": ["x"], "properties": {"x": {
        "type": "object", "required": ["a"], "properties": {"a": CROSSED}}}}, "/properties/x/properties/a"),
    # Not what may be left out, or written otherwise.
    ({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"anyOf": [{"type": "object", "required": ["q"], "properties": {"q": {"enum": ["x"], "type": "null"}}},
                        {"type": "object", "required": ["r"]}]},
        "b": CROSSED}}, "/properties/b"),
    ({"type": "object", "required": ["b"], "properties": {
        "a": {"type": "string", "minLength": 3, "maxLength": 2}, "b": CROSSED}}, "/properties/b"),
    ({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"anyOf": [CROSSED, {"type": "null"}]}, "b": {"type": "array", "minItems": 1, "items": CROSSED}}}, "/properties/b"),
    ({"anyOf": [{"type": "object", "required": ["a"], "properties": {"a": CROSSED}}, False]}, "/anyOf/0/properties/a"),
    ({"type": "array", "minItems": 2, "prefixItems": [{}, CROSSED]}, "/prefixItems/1"),
    ({"type": "array", "minItems": 1, "items": CROSSED}, "/items"),
    # What is referred to, wherever from.
    ({"$defs": {"c": CROSSED}, "type": "object", "required": ["b"], "properties": {
        "a": {"anyOf": [{"$ref": "#/$defs/c"}, {}]}, "b": {"$ref": "#/$defs/c"}}}, "/$defs/c"),
    # A required member that no name may have: what stands in the way is the object.
    ({"type": "object", "required": ["a"], "properties": {"a": {
        "type": "object", "required": ["z"], "additionalProperties": False}}}, "/properties/a"),
    # Two parts that only disagree with each other, though a third says what they say together.
    ({"type": "object", "required": ["u", "v"], "properties": {
        "u": {"type": "array", "items": {"allOf": [{"type": "string", "minLength": 5}, {"maxLength": 3}]}},
        "v": {"type": "array", "minItems": 1,
              "allOf": [{"items": {"type": "string", "minLength": 5}}, {"items": {"maxLength": 3}}]}}}, "/properties/v"),
    ({"allOf": [{"type": "object", "required": ["a"], "properties": {"a": {"type": "null"}}},
                {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}]}, ""),
]  # fmt: skip


@pytest.mark.parametrize("schema", EMPTY, ids=repr)
def test_a_schema_without_documents_is_refused(schema: Schema) -> None:
    with pytest.raises(UnsatisfiableError, match="no document satisfies the schema"):
        machine_of(schema)


@pytest.mark.parametrize(("schema", "pointer"), EMPTY_PARTS, ids=repr)
def test_a_schema_without_documents_names_a_part_that_no_value_fits(
    schema: Schema, pointer: str
) -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        machine_of(schema)
    assert caught.value.pointer == pointer


def test_a_wrapper_around_a_schema_is_none() -> None:
    wrapper: dict[str, Any] = {"name": "a", "strict": True, "schema": {"type": "object"}}
    with pytest.raises(InvalidConstraintError) as caught:
        machine_of(wrapper)
    assert str(caught.value) == (
        "at the root: this is a wrapper around a schema, as in OpenAI's API; "
        "pass the schema in it, its member 'schema'"
    )
    # Beside a keyword its members are notes, as any unknown one.
    machine_of({**wrapper, "type": "object"})


_CLOSED = {"type": "object", "properties": {"severity": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        (
            _CLOSED | {"required": ["severty"]},
            "the member 'severty' is required, but may not be there; did you mean 'severity'?",
        ),
        (
            {"type": "array", "minItems": 1, "items": {"allOf": [_CLOSED, {"required": ["x"]}]}},
            "the member 'x' is required, but may not be there",
        ),
        # Other reasons, with the general hint.
        (_CLOSED | {"minProperties": 2, "required": ["severity"]}, "look for bounds that cross"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "look for bounds that cross"),
    ],
)
def test_a_required_member_that_may_not_be_there_is_named(schema: Schema, hint: str) -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        machine_of(schema)
    assert str(caught.value.hint).startswith(hint)


def _limited(schema: Schema, **limits: int) -> JsonMachine:
    grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    return JsonMachine(grammar, limits=RecognizerLimits(**limits))


def test_documents_that_are_all_too_long_are_over_a_limit() -> None:
    with pytest.raises(LimitExceededError, match="none with more than 100000 bytes was tried"):
        machine_of({"type": "string", "minLength": 200_000})


@pytest.mark.parametrize(
    ("schema", "message", "limit"),
    [
        ({"type": "array", "minItems": 10_001}, "more than 10000 items in one array", 10_000),
        ({"type": "object", "minProperties": 1_001}, "more than 1000 members in one", 1_000),
    ],
)
def test_containers_that_are_all_too_large_name_the_limit(
    schema: Schema, message: str, limit: int
) -> None:
    with pytest.raises(LimitExceededError, match=message) as caught:
        machine_of(schema)
    assert caught.value.limit == limit


@pytest.mark.parametrize("num_references", [0, 1, 5, 20, 40])
def test_a_limit_is_told_with_its_place_behind_references(num_references: int) -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(num_references)
    }
    definitions[f"d{num_references}"] = {"type": "array", "minItems": 10_001}
    member = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "required": ["a"]}
    with pytest.raises(LimitExceededError) as caught:
        machine_of({"$defs": definitions, "type": "object", **member})
    assert caught.value.pointer == f"/$defs/d{num_references}"


@pytest.mark.parametrize("length", [100_001, 2**31, 2**63, 10**300])
def test_strings_that_are_too_long_are_not_begun(length: int) -> None:
    for bounds in ({"minLength": length}, {"minLength": length, "maxLength": length + 1}):
        machine = machine_of({"type": ["string", "null"], **bounds})
        assert accepts(machine, "null")
        assert machine.step(machine.start, ord('"')) is None


def test_a_table_that_grows_past_its_cells_is_an_error() -> None:
    with pytest.raises(LimitExceededError, match="more than 100 cells") as caught:
        _limited({"type": "string", "pattern": "^[a-z]{50}$"}, max_cells=100)
    assert caught.value.limit == 100
    assert caught.value.hint is not None


def test_stacks_without_end_are_an_error() -> None:
    machine = _limited({"type": "array", "items": {"$ref": "#"}}, max_stacks=50)
    with pytest.raises(LimitExceededError, match="more than 50 stacks"):
        machine.advance(machine.start, b"[" * 60)


def test_room_is_kept_to_end_documents() -> None:
    machine = _limited({"type": "array", "items": {"$ref": "#"}}, max_stacks=50)
    machine.parts.check_room()
    assert machine.parts.fullness <= 0.5
    state = machine.advance(machine.start, b"[" * 15)
    assert state is not None
    assert machine.parts.fullness > 0.5
    with pytest.raises(LimitExceededError, match="may have half"):
        machine.parts.check_room()
    assert machine.shortest_completion(state) == b"]" * 15


def test_work_is_bounded() -> None:
    names = [f"n{i}" for i in range(60)]
    schema = {
        "type": "object",
        "anyOf": [{"required": [name], "properties": {name: {"minimum": 1}}} for name in names],
        "properties": {name: {"maximum": 0} for name in names},
    }
    with limited_work(500), pytest.raises(LimitExceededError, match="units of work"):
        machine_of(schema)


MISSING: list[tuple[Schema, str, str, str]] = [
    ({"enum": ["ab", "cd"]}, "a", '"cd"', '"ab"'),
    ({"type": "boolean"}, "r", "false", "true"),
    ({"type": ["null", "integer"]}, "n", "1", "null"),
    ({"type": ["object", "integer"]}, "{", "1", "{}"),
    ({"type": ["array", "integer"]}, "[", "1", "[]"),
    ({"type": ["string", "integer"], "pattern": "^é"}, "é", "1", '"é"'),
    ({"type": "string", "maxLength": 1}, "é", '"a"', '"é"'),
    ({"type": "string"}, "é", '"\\u0001"', '"😀é"'),
    ({"type": "string"}, "b", '"a\\n"', '"b"'),
    ({"type": "string", "minLength": 3}, "a", '"xyz"', '"aaa"'),
    ({"type": "string", "pattern": "^(a|b)+$"}, "a", '"bb"', '"ab"'),
    ({"type": "integer"}, "-", "12", "-1"),
    ({"type": "integer", "minimum": 5}, "5", "6", "5"),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}, "a", '{"b":1}', '{"a":1}'),
    ({"type": "object", "minProperties": 1}, "a", '{"b":1}', '{"a":1}'),
    ({"type": "object", "patternProperties": {"^[ab]$": {}}, "additionalProperties": False, "minProperties": 1}, "a", '{"b":0}', '{"a":0}'),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "missing", "accepted", "rejected"), MISSING, ids=repr)
def test_a_text_that_cannot_be_spelled_is_not_recognised(
    schema: Schema, missing: str, accepted: str, rejected: str
) -> None:
    machine = machine_of(schema, missing=frozenset(missing.encode()))
    assert accepts(machine, accepted)
    assert not accepts(machine, rejected)
    assert accepts(machine_of(schema), rejected)
    machine.check()


def test_white_space_that_cannot_be_spelled_is_not_offered() -> None:
    options = JsonOptions(whitespace=None)
    machine = machine_of({"type": "array"}, options, frozenset(b"\t\n\r"))
    assert accepts(machine, "[ ]")
    assert not accepts(machine, "[\n]")


UNSPELLABLE: list[tuple[Any, str]] = [
    ({"const": "é"}, "é"),
    ({"enum": [{"é": 1}, ["ü"]]}, "éü"),
    ({"type": "object", "required": ["é"]}, "é"),
    ({"type": "string", "pattern": "^é+$"}, "é"),
]


@pytest.mark.parametrize(("schema", "missing"), UNSPELLABLE, ids=repr)
def test_documents_that_all_need_a_byte_that_is_missing(schema: Schema, missing: str) -> None:
    with pytest.raises(UnsatisfiableError):
        machine_of(schema, missing=frozenset(missing.encode()))
