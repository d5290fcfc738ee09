"""The JSON Schema front end and its recogniser: what is accepted, rejected and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import (
    ConstraintError,
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.frontends.json_schema import Enforcement, lower_json_schema
from tests.kit.schemas import accepts, compact, machine_of

_TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}

_DOCUMENTS: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [None, 1, "a", [], {"a": [{}]}], []),
    ({"type": "null"}, [None], [0, False, ""]),
    ({"type": "boolean"}, [True, False], [None, 0]),
    ({"type": ["integer", "null"]}, [3, None], [3.5, "3"]),
    ({"const": 1.0}, [1], [1.5, True]),
    ({"const": {"a": [1, None]}}, [{"a": [1, None]}], [{"a": [1]}, {}]),
    ({"enum": ["a", 1, None, True]}, ["a", 1, None, True], ["b", 2, False]),
    ({"enum": ["aa", "b"], "maxLength": 1}, ["b"], ["aa"]),
    ({"enum": [1, 5, 9], "minimum": 2, "exclusiveMaximum": 9}, [5], [1, 9]),
    ({"type": "integer", "enum": [1, 1.5, "a"]}, [1], [1.5, "a"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "日本語"], ["a", "abcd"]),
    ({"type": "string", "pattern": "^a+$", "maxLength": 2}, ["a", "aa"], ["aaa", "b"]),
    ({"type": "string", "pattern": "b"}, ["b", "abc", '"b"'], ["ac"]),
    ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-13-01"]),
    ({"type": "string", "format": "date"}, ["2000-02-29"], ["1900-02-29", "0000-01-01"]),
    (
        {"type": "string", "format": "time"},
        ["23:59:59Z", "00:00:00.5+01:30"],
        ["24:00:00Z", "1:2:3"],
    ),
    ({"type": "string", "format": "date-time"}, ["2024-01-31T10:00:00Z"], ["2024-01-31"]),
    ({"type": "string", "format": "duration"}, ["P1Y2M3D", "PT5M", "P2W"], ["P", "PT", "P1S"]),
    ({"type": "string", "format": "ipv4"}, ["127.0.0.1"], ["256.0.0.1", "1.2.3", "01.2.3.4"]),
    (
        {"type": "string", "format": "email"},
        ["a.b@example.org"],
        ["a@b", "@example.org", "a b@c.de"],
    ),
    ({"type": "string", "format": "password"}, ["x"], [1]),
    (
        {"type": "string", "format": "uri"},
        ["https://example.org/a/b.html"],
        ["example.org", "http:"],
    ),
    (
        {"type": "string", "format": "uuid4"},
        ["f81d4fae-7dec-41d0-a765-00a0c91e6bf6"],
        ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "x"],
    ),
    ({"type": "integer", "minimum": 18, "maximum": 120}, [18, 99, 120], [17, 121, -20]),
    ({"type": "integer", "exclusiveMinimum": 0, "minimum": 0}, [1], [0, -1]),
    ({"type": "integer", "multipleOf": 7, "minimum": -20}, [0, 14, -14], [3, -21]),
    ({"type": "number", "minimum": -0.5, "maximum": 1.25}, [-0.5, 0, 1.25, 1.2], [-0.51, 1.26, 2]),
    ({"type": "array", "items": {"type": "integer"}}, [[], [1], [1, 2, 3]], [["a"], [1, None]]),
    ({"type": "array", "items": False}, [[]], [[1]]),
    (
        {"type": "array", "minItems": 1, "maxItems": 2, "items": {"const": 0}},
        [[0], [0, 0]],
        [[], [0] * 3],
    ),
    (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        [[], [1], [1, "a"]],
        [["a"], [1, 2], [1, "a", None]],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]},
        [{"b": 1}, {"a": 1, "b": 2}, {"b": 1, "c": None}],
        [{}, {"a": 1}, {"a": "x", "b": 1}, {"c": 1, "b": 1}, {"b": 1, "a": 1}],
    ),
    (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        [{}, {"a": None}],
        [{"b": 1}, {"a": 1, "b": 2}],
    ),
    (
        {"type": "object", "required": ["x"], "additionalProperties": {"type": "boolean"}},
        [{"x": True}, {"x": False, "y": True}],
        [{}, {"x": 1}, {"y": True}],
    ),
    (
        {
            "type": "object",
            "additionalProperties": {"const": 0},
            "minProperties": 1,
            "maxProperties": 2,
        },
        [{"a": 0}, {"a": 0, "b": 0}],
        [{}, {"a": 0, "b": 0, "c": 0}],
    ),
    ({"properties": {'q"\\é': {"const": 1}}, "type": "object"}, [{'q"\\é': 1}], [{'q"\\é': 2}]),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, [1, "a"], ["ab", None]),
    ({"anyOf": [{"enum": ["auto"]}, {"type": "string", "pattern": "^#"}]}, ["auto", "#1"], ["x"]),
    ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], ["a"]),
    ({"oneOf": [{"const": 1}, {"enum": [2, "a"]}]}, [1, 2, "a"], [3, "b"]),
    (
        {"const": 12345678901234567890123456789012345},
        [12345678901234567890123456789012345],
        [12345678901234567890123456790000000],
    ),
    (
        {"type": "integer", "minimum": -12345678901234567890123456789012344},
        [-12345678901234567890123456789012344],
        [-12345678901234567890123456789012345],
    ),
    ({"type": "integer", "multipleOf": 7, "enum": [7, 8, 14]}, [7, 14], [8]),
    ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"const": 1}}}, [1], [2]),
    (
        _TREE,
        [{"value": 1}, {"value": 1, "next": {"value": 2, "next": None}}],
        [{"value": 1, "next": {}}, {"next": None}],
    ),
    ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}}, [1], [2]),
    ({"type": "string", "title": "t", "x-note": 1, "examples": []}, ["a"], [1]),
]


@pytest.mark.parametrize(("schema", "accepted", "rejected"), _DOCUMENTS, ids=range(len(_DOCUMENTS)))
def test_documents_are_accepted_and_rejected(
    schema: Any, accepted: list[Any], rejected: list[Any]
) -> None:
    machine = machine_of(schema)
    assert [doc for doc in accepted if not accepts(machine, compact(doc))] == []
    assert [doc for doc in rejected if accepts(machine, compact(doc))] == []
    machine.check()


@pytest.mark.parametrize(
    "text",
    [b" 1", b"1 ", b"01", b"1.0", b"-0", b"1e0", b'"\\u0061"', b'{"a" :1}', b'{"a":1,}', b"nul"],
)
def test_only_the_canonical_spelling_is_written(text: bytes) -> None:
    """Compact, no needless escapes, no exponent; a whole number of type integer has no fraction."""
    schema = {"type": ["integer", "string", "null", "object"], "properties": {"a": {"const": 1}}}
    assert not accepts(machine_of(schema), text)


_REFUSED: list[tuple[str, type[GuidedError], str]] = [
    ("{", InvalidConstraintError, "the schema is not JSON: Expecting property name"),
    ("3", InvalidConstraintError, "at the root: a schema is an object or a boolean, not 3"),
    ("[]", InvalidConstraintError, "at the root: a schema is an object or a boolean, not []"),
    ('{"a": 1, "a": 2}', InvalidConstraintError, "names the member 'a' twice"),
    ('{"minimum": NaN}', InvalidConstraintError, "holds NaN, which is no JSON number"),
    ('{"type": "text"}', InvalidConstraintError, 'at /type: "text" is no type; one of null,'),
    (
        '{"type": "string", "minLength": -1}',
        InvalidConstraintError,
        "at /minLength: minLength is a",
    ),
    ('{"type": "string", "pattern": "["}', InvalidConstraintError, "at /pattern: the pattern '['"),
    ('{"properties": []}', InvalidConstraintError, "at /properties: properties is an object"),
    ('{"properties": {"a": 1}}', InvalidConstraintError, "at /properties/a: a schema is an object"),
    ('{"required": [1]}', InvalidConstraintError, "at /required/0: required lists names, not 1"),
    ('{"anyOf": []}', InvalidConstraintError, "at /anyOf: anyOf is a list of at least one schema"),
    ('{"$ref": "#/$defs/x"}', InvalidConstraintError, "at /$ref: $ref '#/$defs/x' names nothing"),
    ('{"$ref": "#"}', InvalidConstraintError, "at the root: the schema refers to nothing but"),
    ('{"multipleOf": 0}', InvalidConstraintError, "at /multipleOf: multipleOf is a number above 0"),
    ('{"enum": 1}', InvalidConstraintError, "at /enum: enum is a list, not 1"),
    ('{"not": {}}', UnsupportedFeatureError, "at /not: the keyword 'not' cannot be enforced yet"),
    (
        '{"properties": {"a/b": {"items": {"contains": {}}}}}',
        UnsupportedFeatureError,
        "at /properties/a~1b/items/contains: the keyword 'contains' cannot be enforced yet",
    ),
    ('{"uniqueItems": true}', UnsupportedFeatureError, "at /uniqueItems"),
    (
        '{"format": "regex", "type": "string"}',
        UnsupportedFeatureError,
        "at /format: the format 'regex'",
    ),
    ('{"$schema": "http://example.org/x"}', UnsupportedFeatureError, "at /$schema: the dialect"),
    ('{"$ref": "http://example.org/x"}', UnsupportedFeatureError, "at /$ref: $ref 'http://example"),
    (
        '{"$ref": "#a", "type": "null"}',
        UnsupportedFeatureError,
        "at /type: '$ref' and 'type' stand",
    ),
    ('{"allOf": [{}, {}]}', UnsupportedFeatureError, "at /allOf: allOf joins 2 schemas"),
    (
        '{"anyOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]}',
        UnsupportedFeatureError,
        "at the root: more than one alternative is an object",
    ),
    (
        '{"oneOf": [{"type": "integer"}, {"type": "number"}]}',
        UnsupportedFeatureError,
        "at /oneOf: branches 0 and 1 of oneOf both allow numbers",
    ),
    (
        '{"oneOf": [{"type": "integer"}, {"const": 5}]}',
        UnsupportedFeatureError,
        "at /oneOf: branches 0 and 1 of oneOf both allow",
    ),
    ('{"oneOf": [{"const": 1}, {"const": 1.0}]}', UnsupportedFeatureError, "at /oneOf: branches"),
    ('{"oneOf": [{"const": "a"}, {"type": "string"}]}', UnsupportedFeatureError, "at /oneOf"),
    (
        '{"$ref": "#/$defs/x/$defs/y", "$defs": {"x": {"$id": "http://a/", "$defs": {"y": {}}}}}',
        UnsupportedFeatureError,
        "at /$ref: $ref '#/$defs/x/$defs/y' leads through a schema with an $id",
    ),
    ('{"const": "\\ud800"}', InvalidConstraintError, "holds half of a surrogate pair"),
    ('{"type": []}', InvalidConstraintError, "at /type: type is a name or a list of at least one"),
    (
        '{"type": "integer", "minLength": "x"}',
        InvalidConstraintError,
        "at /minLength: minLength is",
    ),
    ('{"minimum": 1e9999999}', LimitExceededError, "has more digits than 400"),
    ('{"minimum": 1e99999999999999999999}', LimitExceededError, "has more digits than 400"),
    ('{"minLength": 1' + "0" * 500 + "}", LimitExceededError, "has more digits than 400"),
    ('{"const": "' + "a" * 150_000 + '"}', LimitExceededError, "more than 100000 bytes"),
    ('{"type": "object", "minProperties": 1100}', LimitExceededError, "at /minProperties: minProp"),
    (
        '{"type": "string", "maxLength": 49998}',
        LimitExceededError,
        "at the root: its automaton over",
    ),
    ('{"type": "number", "multipleOf": 0.1}', UnsupportedFeatureError, "at /multipleOf"),
    ('{"type": "array", "items": [{}]}', UnsupportedFeatureError, "at /items: items is a list"),
    ("false", UnsatisfiableError, "no document satisfies the schema"),
    (
        '{"type": "string", "minLength": 5, "maxLength": 2}',
        UnsatisfiableError,
        "at the root: no document satisfies the schema: minLength (5) is greater than maxLength",
    ),
    (
        '{"type": "object", "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}},'
        ' "required": ["a"]}',
        UnsatisfiableError,
        "at /properties/a: no document satisfies the schema: the least number (2) is above",
    ),
    (
        '{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}',
        UnsatisfiableError,
        "every way through it is endless or contradictory",
    ),
    (
        '{"type": "object", "required": ["a"], "additionalProperties": false}',
        UnsatisfiableError,
        "the required member 'a' is not allowed",
    ),
    (
        '{"type": "integer", "minimum": 5, "maximum": 9, "multipleOf": 11}',
        UnsatisfiableError,
        "no doc",
    ),
    ('{"type": "string", "pattern": "^a$", "minLength": 2}', UnsatisfiableError, "no document"),
    ("[" * 100_000, LimitExceededError, "the schema is nested deeper than 200"),
    ('{"description": "' + "x" * 1_000_000 + '"}', LimitExceededError, "more than 1000000"),
    (
        '{"type": "array", "minItems": 1000000}',
        LimitExceededError,
        "at the root: the shortest document has more than 100000 bytes",
    ),
]


@pytest.mark.parametrize(("text", "kind", "message"), _REFUSED, ids=range(len(_REFUSED)))
def test_a_schema_that_cannot_be_enforced_is_refused_with_its_place(
    text: str, kind: type[GuidedError], message: str
) -> None:
    from guided.recognizer.json_machine import JsonMachine

    with pytest.raises(kind) as caught:
        JsonMachine(lower_json_schema(text).grammar)
    assert message in str(caught.value)
    if isinstance(caught.value, ConstraintError) and str(caught.value).startswith("at /"):
        assert str(caught.value).startswith(f"at {caught.value.pointer}: ")


def test_every_keyword_gets_a_verdict() -> None:
    schema = {
        "title": "Person",
        "type": "object",
        "properties": {"born": {"type": "string", "format": "date"}, "x": {"format": "binary"}},
        "x-note": 1,
    }
    verdicts = {v.pointer: v for v in lower_json_schema(json.dumps(schema)).verdicts}
    assert {pointer: verdict.enforcement for pointer, verdict in verdicts.items()} == {
        "/title": Enforcement.ANNOTATION,
        "/type": Enforcement.ENFORCED,
        "/properties": Enforcement.ENFORCED,
        "/properties/born/type": Enforcement.ENFORCED,
        "/properties/born/format": Enforcement.NARROWED,
        "/properties/x/format": Enforcement.ANNOTATION,
        "/x-note": Enforcement.ANNOTATION,
    }
    assert verdicts["/x-note"].note == "no draft defines it"


def test_a_keyword_that_looks_misspelled_is_pointed_out() -> None:
    (verdict,) = lower_json_schema('{"maxlength": 3}').verdicts
    assert verdict.enforcement is Enforcement.ANNOTATION
    assert verdict.note == "no draft defines it; close to 'maxLength'"


def test_an_optional_property_without_a_value_is_left_out() -> None:
    machine = machine_of({"type": "object", "properties": {"a": False, "b": {"const": 1}}})
    assert accepts(machine, b'{"b":1}')
    assert not accepts(machine, b'{"a":1}')


def test_a_recursive_document_may_be_as_deep_as_it_likes() -> None:
    machine = machine_of(_TREE)
    depth = 2000
    text = b'{"value":0,"next":' * depth + b"null" + b"}" * depth
    assert accepts(machine, text)
    machine.check()
