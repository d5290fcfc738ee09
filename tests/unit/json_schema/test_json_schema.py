"""The meaning of each keyword of JSON Schema: documents that fit, and documents that do not."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from guided.errors import LimitExceededError
from guided.json_schema.reader import lower_json_schema
from guided.json_schema.reader.keywords import KEYWORDS, Role
from guided.runtime.work_budget import limited_work
from guided.spec import FormatMode, JsonOptions, JsonSchema
from tests.kit.evaluate import holds

_4 = "http://json-schema.org/draft-04/schema#"
_7 = "http://json-schema.org/draft-07/schema#"
_2019 = "https://json-schema.org/draft/2019-09/schema"

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

_ROWS: list[tuple[Any, list[Any], list[Any]]] = [
    # --- any value ------------------------------------------------------------------------
    (True, [None, 1, "a", [], {"a": [{}]}], []),
    (False, [], [None, 1, "a", [], {}]),
    ({}, [None, 1, "a", [], {}], []),
    ({"title": "t", "x-note": 1, "examples": []}, [1, "a"], []),
    ({"type": "null"}, [None], [0, False, ""]),
    ({"type": "boolean"}, [True, False], [None, 0]),
    ({"type": ["integer", "null"]}, [3, 3.0, None], [3.5, "3"]),
    ({"type": ["integer", "number"]}, [3, 3.5], ["3"]),
    ({"type": ["integer", "string"], "minimum": 2}, [2, "a"], [1, 2.5, None]),
    ({"const": 1.0}, [1], [1.5, True]),
    ({"const": False}, [False], [0, None, ""]),
    ({"const": {"a": [1, None]}}, [{"a": [1, None]}], [{"a": [1]}, {}, {"a": [1, None], "b": 1}]),
    ({"const": []}, [[]], [[None], {}, None]),
    ({"enum": []}, [], [None, 1]),
    ({"enum": ["a", 1, None, True]}, ["a", 1, None, True], ["b", 2, False]),
    ({"enum": [[], {}, [1], {"a": {"b": []}}]}, [[], {}, [1], {"a": {"b": []}}], [[2], {"a": {}}]),
    ({"enum": ["aa", "b"], "maxLength": 1}, ["b"], ["aa"]),
    ({"type": "integer", "enum": [1, 1.5, "a"]}, [1], [1.5, "a"]),
    # --- numbers --------------------------------------------------------------------------
    ({"minimum": -0.5, "maximum": 1.25}, [-0.5, 0, 1.25, "a"], [-0.51, 1.26]),
    ({"exclusiveMinimum": 0, "minimum": 0}, [1], [0, -1]),
    ({"exclusiveMinimum": 0, "minimum": 1}, [1], [0.5]),
    ({"exclusiveMaximum": 5, "maximum": 7}, [4.9], [5, 6]),
    ({"exclusiveMaximum": 5, "maximum": 3}, [3], [4]),
    ({"$schema": _4, "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
    ({"$schema": _4, "maximum": 1, "exclusiveMaximum": False}, [1], [2]),
    ({"maximum": 1, "exclusiveMaximum": True}, [0], [1]),
    ({"exclusiveMaximum": True}, [0, 10**9], []),
    ({"multipleOf": 0.1}, [0.3, 7, "a"], [0.35]),
    ({"type": "integer", "multipleOf": 7, "minimum": -20}, [0, 14, -14], [3, -21, 7.5]),
    ({"minimum": 10**40 + 1}, [10**40 + 1], [10**40]),
    # --- strings --------------------------------------------------------------------------
    ({"minLength": 2, "maxLength": 3}, ["ab", "日本語", "😀😀", 1], ["a", "abcd"]),
    ({"minLength": 0}, ["", 1], []),
    ({"pattern": "b"}, ["b", "abc", 1], ["ac"]),
    ({"pattern": "^a+$", "maxLength": 2}, ["a", "aa"], ["aaa", "b"]),
    ({"pattern": r"^(?i:ok|\p{Script=Greek})$"}, ["oK", "Ω", "σ"], ["okk", "Ж"]),
    ({"patternProperties": {"(?i)^x-": {"type": "null"}}}, [{"X-a": None, "y": 1}], [{"X-a": 1}]),
    ({"format": "date"}, ["2024-02-29", 1], ["2023-02-29"]),
    ({"format": "no-such-format"}, ["x"], []),
    # --- arrays ---------------------------------------------------------------------------
    ({"items": {"type": "integer"}}, [[], [1, 2], "a"], [["a"], [1, None]]),
    ({"items": False}, [[], {}], [[1]]),
    (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        [[], [1], [1, "a"]],
        [["a"], [1, 2], [1, "a", None]],
    ),
    ({"$schema": _7, "prefixItems": [False]}, [[1]], []),
    (
        {"$schema": _7, "items": [{"const": 1}], "additionalItems": {"const": 2}},
        [[], [1], [1, 2, 2]],
        [[2], [1, 1]],
    ),
    ({"items": [{"const": 1}], "additionalItems": False}, [[1]], [[2], [1, 1]]),
    ({"items": {"const": 1}, "additionalItems": False}, [[1, 1]], [[2]]),
    ({"minItems": 1, "maxItems": 2}, [[0], [0, 0], "a"], [[], [0] * 3]),
    ({"contains": {"const": 1}}, [[1], [0, 1], {}], [[], [0]]),
    ({"$schema": _4, "contains": False}, [[], [1]], []),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 0, 1]], [[1], [1] * 4]),
    ({"contains": {"const": 1}, "minContains": 0}, [[], [0]], []),
    ({"contains": {"const": 1}, "minContains": 0, "maxContains": 1}, [[], [1]], [[1, 1]]),
    ({"minContains": 2, "maxContains": 1}, [[], [1]], []),
    ({"uniqueItems": True}, [[], [1, True, "1"], [[1], [2]]], [[1, 1.0], [{"a": 1}, {"a": 1.0}]]),
    ({"uniqueItems": False}, [[1, 1]], []),
    # --- objects --------------------------------------------------------------------------
    (
        {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]},
        [{"b": 1}, {"a": 1, "b": 2}, {"c": None, "b": 1}, []],
        [{}, {"a": 1}, {"a": "x", "b": 1}],
    ),
    (
        {
            "properties": {"a": {"const": 1}},
            "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}},
            "additionalProperties": {"type": "null"},
        },
        [{"a": 1, "ax": 2, "b": 5, "ab": 5, "c": None}, {"xb": "s"}],
        [{"a": 2}, {"ax": "s"}, {"ab": 1}, {"ab": 5.5}, {"c": 1}],
    ),
    ({"patternProperties": {"a": True}, "additionalProperties": False}, [{"ba": 1}], [{"b": 1}]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {}, 1], [{"ab": 1}]),
    ({"propertyNames": False}, [{}], [{"a": 1}]),
    ({"minProperties": 1, "maxProperties": 2}, [{"a": 1}, 1], [{}, {"a": 1, "b": 2, "c": 3}]),
    (
        {"dependentRequired": {"a": ["b", "c"]}},
        [{}, {"b": 1}, {"a": 1, "b": 1, "c": 1}, 1],
        [{"a": 1}],
    ),
    (
        {"dependentSchemas": {"a": {"required": ["b"]}, "x": False}},
        [{}, {"a": 1, "b": 1}, 7],
        [{"a": 1}, {"x": 1}],
    ),
    (
        {"$schema": _7, "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}},
        [{}, {"a": 1, "b": 1}, {"c": 1}, 7],
        [{"a": 1}, {"c": 1, "d": 1}],
    ),
    ({"dependencies": {"a": ["b"]}}, [{"a": 1, "b": 1}], [{"a": 1}]),
    ({"$schema": _4, "required": []}, [{}], []),
    # --- applied in place -----------------------------------------------------------------
    ({"allOf": [{"minimum": 1}, {"maximum": 2}], "multipleOf": 2}, [2], [1, 0, 4]),
    ({"anyOf": [{"type": "integer"}, {"maxLength": 1}]}, [1, "a", None], ["ab"]),
    ({"anyOf": [{"const": 1}, True]}, [1, 2], []),
    ({"oneOf": [{"minimum": 2}, {"maximum": 3}]}, [1, 4], [2, 3, "a"]),
    ({"oneOf": [{"const": 1}, {"const": 1.0}, {"const": True}]}, [True], [1]),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}, [None, 1.5], [1]),
    ({"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", 1]}]}, ["a", 1], ["b"]),
    (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": kind}}, "required": ["k"]}
                for kind in ("a", "b", True, 1)
            ]
        },
        [{"k": "a"}, {"k": True}, {"k": 1}],
        [{"k": "c"}, {}, 1],
    ),
    (
        {"oneOf": [{"properties": {"k": {"const": 1}}}, {"properties": {"k": {"const": 2}}}]},
        [{"k": 1}],
        [{}, {"k": 3}, "a"],
    ),
    ({"oneOf": [{"const": []}, {"type": "array"}]}, [[1]], [[], 1]),
    ({"oneOf": [True, {"const": 1}]}, [2], [1]),
    ({"not": {"type": "integer", "minimum": 3}}, [2, "a", 3.5], [3]),
    ({"not": {"required": ["a"]}}, [{}, {"b": 1}], [{"a": 1}, "x"]),
    ({"not": {"not": {"const": 1}}}, [1], [2]),
    (
        {"if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"multipleOf": 3}},
        [20, 3, "a"],
        [15, 5],
    ),
    ({"if": {"minimum": 10}, "else": {"const": 1}}, [1, 11], [2]),
    ({"if": {"minimum": 10}, "then": {"const": 11}}, [1, 11], [12]),
    ({"then": False, "else": False}, [1], []),
    # --- unevaluated ----------------------------------------------------------------------
    (
        {
            "properties": {"a": True},
            "anyOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}, {"required": ["c"]}],
            "unevaluatedProperties": False,
        },
        [{"a": 0, "b": 1}, 1],
        [{"b": 2}, {"a": 1}, {"c": 1}, {"b": 1, "c": 1}],
    ),
    (
        {
            "allOf": [{"$ref": "#/$defs/p"}, {"patternProperties": {"^x": True}}],
            "if": {"properties": {"i": {"const": 1}}, "required": ["i"]},
            "then": {"properties": {"t": True}},
            "else": {"patternProperties": {"^e": True}},
            "dependentSchemas": {"p": {"properties": {"q": True}}},
            "not": {"not": {"properties": {"n": True}}},
            "unevaluatedProperties": {"type": "null"},
            "$defs": {"p": {"properties": {"p": True}}},
        },
        [{"p": 1, "q": 1, "x": 1}, {"i": 1, "t": 1}, {"e": 1}, {"z": None}],
        [{"q": 1}, {"i": 1, "e": 1}, {"t": 1}, {"n": 1}, {"i": 2}],
    ),
    (
        {
            "anyOf": [{"additionalProperties": {"type": "integer"}}, {"properties": {"a": True}}],
            "unevaluatedProperties": False,
        },
        [{"z": 1}, {"a": "s"}],
        [{"z": "s"}, {"a": "s", "z": 1}],
    ),
    (
        {"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False},
        [{"a": 1}],
        [],
    ),
    (
        {
            "anyOf": [
                {"patternProperties": {"^a": {"const": 1}}, "required": ["a1"]},
                {"patternProperties": {"1$": {"const": 1}}},
                {"properties": {"a2": True}, "required": ["a2"]},
            ],
            "unevaluatedProperties": False,
        },
        [{"a1": 1}, {"a1": 1, "a2": 1}, {"b1": 1}, {"a2": 5}],
        [{"a3": 1}, {"a1": 2}, {"a2": 5, "c": 1}],
    ),
    (
        {
            "prefixItems": [True],
            "anyOf": [{"prefixItems": [True, {"const": 2}]}, {"contains": {"const": 7}}],
            "unevaluatedItems": {"type": "null"},
        },
        [[1, 2], [1, 2, None], [1, 7], [1, 7, None], [1, 2, 7]],
        [[1, None], [1, 3], [1, 2, 3], [1, 7, 8]],
    ),
    (
        {
            "$schema": _2019,
            "contains": {"const": 7},
            "minContains": 0,
            "unevaluatedItems": False,
        },
        [[]],
        [[7]],
    ),
    (
        {
            "$schema": _2019,
            "anyOf": [{"items": [True], "additionalItems": {"const": 1}}, {"items": [True, True]}],
            "unevaluatedItems": False,
        },
        [[0, 1, 1, 1], [0, 0], [0]],
        [[0, 0, 0]],
    ),
    ({"oneOf": [{"items": True}], "unevaluatedItems": False}, [[1, 2]], []),
    (
        {"dependentSchemas": {"a": {"items": True}}, "unevaluatedItems": False},
        [[], {"a": 1}],
        [[1]],
    ),
    # --- references -----------------------------------------------------------------------
    (_TREE, [{"value": 1, "next": {"value": 2, "next": None}}], [{"value": 1, "next": {}}, {}]),
    ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}}, [1], [2]),
    ({"$ref": "#/x-own", "x-own": {"const": 1}}, [1], [2]),
    ({"$ref": "#/$defs/a", "minimum": 2, "$defs": {"a": {"maximum": 3}}}, [2, 3], [1, 4]),
    (
        {
            "$schema": _7,
            "$ref": "#/definitions/a",
            "minimum": 2,
            "definitions": {"a": {"maximum": 3}},
        },
        [1, 3],
        [4],
    ),
    ({"$ref": "#x", "$defs": {"a": {"$anchor": "x", "const": 1}}}, [1], [2]),
    ({"$schema": _7, "$ref": "#x", "definitions": {"a": {"$id": "#x", "const": 1}}}, [1], [2]),
    (
        {
            "$id": "http://example.org/root",
            "$ref": "other",
            "$defs": {"o": {"$id": "other", "$ref": "#/$defs/in", "$defs": {"in": {"const": 1}}}},
        },
        [1],
        [2],
    ),
    ({"$ref": _7}, [{"type": "string"}, True], [{"type": 1}, 3]),
    ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, [{"not": {}}], [{"not": 1}]),
    (
        {
            "$id": "http://example.org/strict-tree",
            "$dynamicAnchor": "node",
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    "properties": {"kids": {"items": {"$dynamicRef": "#node"}}},
                }
            },
        },
        [{"kids": [{"kids": []}]}],
        [{"a": 1}, {"kids": [{"a": 1}]}],
    ),
    (
        {
            "$schema": _2019,
            "$id": "http://example.org/strict-tree",
            "$recursiveAnchor": True,
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$recursiveAnchor": True,
                    "properties": {"kids": {"items": {"$recursiveRef": "#"}}},
                }
            },
        },
        [{"kids": [{"kids": []}]}],
        [{"a": 1}, {"kids": [{"a": 1}]}],
    ),
    (
        {
            "$id": "http://example.org/new",
            "properties": {
                "old": {
                    "$schema": _7,
                    "$id": "old",
                    "properties": {"x": {"$ref": "#/definitions/a", "const": 1}},
                    "definitions": {"a": {"type": "integer"}},
                },
                "new": {"$ref": "#/$defs/a", "const": 1},
            },
            "$defs": {"a": {"type": "integer"}},
        },
        [{"old": {"x": 2}, "new": 1}],
        [{"old": {"x": "a"}}, {"new": 2}],
    ),
]


def _exact(value: Any) -> Any:
    """The value with its numbers as a recogniser reads them."""
    return json.loads(json.dumps(value), parse_float=Decimal)


@pytest.mark.parametrize(("schema", "accepted", "rejected"), _ROWS, ids=range(len(_ROWS)))
def test_a_schema_means_what_the_specification_says(
    schema: Any, accepted: list[Any], rejected: list[Any]
) -> None:
    grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    assert [doc for doc in accepted if not holds(grammar.root, _exact(doc))] == []
    assert [doc for doc in rejected if holds(grammar.root, _exact(doc))] == []


def test_every_keyword_that_is_enforced_has_a_row_above() -> None:
    text = json.dumps([schema for schema, _, _ in _ROWS])
    enforced = {word.name for word in KEYWORDS if word.role in (Role.ASSERTION, Role.APPLICATOR)}
    assert {name for name in enforced if f'"{name}":' not in text} == set()


def test_a_format_is_a_note_where_the_options_say_so() -> None:
    options = JsonOptions(format=FormatMode.ANNOTATE)
    grammar = lower_json_schema(JsonSchema('{"format": "date"}', options)).grammar
    assert holds(grammar.root, "x")


def test_values_may_be_listed_as_deep_as_a_schema_may_be() -> None:
    value: Any = 1
    for _ in range(95):
        value = {"a": [value]}
    grammar = lower_json_schema(JsonSchema(json.dumps({"const": value}))).grammar
    assert len(grammar.nodes()) == 1


def test_a_schema_keeps_its_meaning_wherever_work_on_it_ended() -> None:
    names = "abcdefgh"
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {
            name: {"properties": {after: {"$ref": f"#/$defs/{after}"}}, "maxProperties": number}
            for number, (name, after) in enumerate(zip(names, names[1:] + "a", strict=True), 1)
        },
    }
    whole = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    documents = [{"a": {}}, {"b": {"c": {"d": {"e": {}, "x": 1}}}}, {"b": {"c": {"x": 1, "y": 1}}}]
    documents.append({"b": {"c": {"x": 1, "y": 1, "z": 1, "w": 1}}})
    expected = [holds(whole.root, document) for document in documents]
    assert sorted(set(expected)) == [False, True]
    for work in range(150):
        grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
        with suppress(LimitExceededError), limited_work(work):
            grammar.nodes()
        assert len(grammar.nodes()) == len(whole.nodes()), work
        assert [holds(grammar.root, document) for document in documents] == expected, work


@pytest.mark.parametrize(
    "schema",
    [{"anyOf": [True, {"pattern": r"(a)\1"}]}, {"not": {"allOf": [False, {"pattern": r"(a)\1"}]}}],
)
def test_what_decides_nothing_may_be_at_fault(schema: Any) -> None:
    grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    assert holds(grammar.root, "aa")
