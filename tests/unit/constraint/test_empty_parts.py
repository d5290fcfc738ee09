"""Parts of a schema that no value fits are reported, though the whole has documents."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import json
from typing import Any

import pytest

import guided
from guided.spec import Regex

CROSSED: dict[str, Any] = {"type": "integer", "minimum": 5, "maximum": 3}

REPORTED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"anyOf": [CROSSED, {"type": "null"}]}, ("/anyOf/0",)),
    ({"properties": {"a": CROSSED, "b": {"type": "string", "enum": [1]}}},
     ("/properties/a", "/properties/b")),
    # The innermost alone, once, wherever it is referred to from.
    ({"properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": CROSSED}}}},
     ("/properties/a/properties/b",)),
    ({"$defs": {"c": CROSSED}, "properties": {"a": {"$ref": "#/$defs/c"}, "b": {"$ref": "#/$defs/c"}}},
     ("/$defs/c",)),
    ({"items": {"allOf": [{"type": "string"}, {"type": "integer"}]}}, ("/items",)),
    ({"properties": {"a/b": {"items": {"minLength": 1, "maxLength": 0, "type": "string"}}}},
     ("/properties/a~1b/items",)),
    # A value that needs another of its kind.
    ({"$defs": {"n": {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}}}},
      "properties": {"a": {"$ref": "#/$defs/n"}}}, ("/$defs/n",)),
    # What says so itself is meant.
    ({"properties": {"a": False, "b": {"not": {}}}, "additionalProperties": False}, ()),
    ({"if": {"required": ["a"]}, "then": {"properties": {"b": False}}}, ()),
    # A list may be empty, so the array has a value; where it may not, it is part of the fault.
    ({"properties": {"a": {"type": "array", "items": False}}}, ()),
    ({"properties": {"a": {"type": "array", "items": False, "minItems": 1}}}, ("/properties/a",)),
    ({"type": "object", "properties": {"a": {"enum": [1, 2]}}}, ()),
    # Empty where one dynamic scope reads it, but not in another.
    ({"$id": "https://a.example/s",
      "$defs": {"l": {"$id": "l", "type": "array", "minItems": 1,
                      "items": {"allOf": [{"$dynamicRef": "#T"}, {"type": "integer"}]},
                      "$defs": {"T": {"$dynamicAnchor": "T", "type": "string"}}},
                "bound": {"$id": "bound", "$ref": "l", "$defs": {"T": {"$dynamicAnchor": "T", "type": "integer"}}}},
      "properties": {"bound": {"$ref": "bound"}, "unbound": {"$ref": "l"}}}, ()),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "pointers"), REPORTED, ids=repr)
def test_parts_without_a_value_are_reported(
    schema: dict[str, Any], pointers: tuple[str, ...]
) -> None:
    assert guided.check(schema).empty_parts == pointers


def test_at_most_a_hundred_are_reported() -> None:
    members = {f"m{number:03}": CROSSED | {"minimum": 10 + number} for number in range(150)}
    found = guided.check(json.dumps({"properties": members})).empty_parts
    assert found == tuple(f"/properties/m{number:03}" for number in range(100))


def test_a_part_where_the_search_gave_up_is_not_reported() -> None:
    long = {"type": "array", "minItems": 10_001}
    assert guided.check({"properties": {"a": long, "b": CROSSED}}).empty_parts == ("/properties/b",)


def test_long_pointers_are_reported_up_to_a_length() -> None:
    members = {f"m{number}": CROSSED | {"minimum": 10 + number} for number in range(10)}
    schema = {"properties": {"n" * 30_000: {"properties": members}}}
    assert len(guided.check(schema).empty_parts) == 3


def test_a_pattern_has_no_parts() -> None:
    assert guided.check(Regex("a")).empty_parts == ()
