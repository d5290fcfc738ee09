"""Objects that schemas accept and reject, whatever the order of their members."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import UnsatisfiableError
from guided.spec import JsonOptions
from tests.unit.json_schema.documents import Row, accepts, assert_row, machine_of

_ANY_ORDER = JsonOptions(key_order="any")


def _object(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords}


def _closed(*names: str, **keywords: Any) -> dict[str, Any]:
    return _object(properties={n: {} for n in names}, additionalProperties=False, **keywords)


ROWS: list[Row] = [
    (_object(), '{} {"a":1} {"":null} {"a":{"b":[]},"c":2}', '{"a"} {"a":} {"a":1,} {,} [] {a:1} {"a":1,"a":1}'),
    ({"required": ["a"]}, '{"a":1} {"b":1,"a":2} 1 [] "a" null', '{} {"b":1}'),
    (_object(properties={"a": {"type": "integer"}}), '{} {"a":1} {"b":"x"} {"b":1,"a":2}', '{"a":"x"} {"b":1,"a":null}'),
    (_object(properties={"a": False}), '{} {"b":1} {"aa":1}', '{"a":1} {"b":1,"a":1}'),
    (_object(properties={"a": {"const": 1}}, required=["a", "b"]), '{"a":1,"b":2} {"b":2,"a":1,"c":3}', '{"a":1} {"b":1} {"a":2,"b":1}'),
    # Names that a schema spells out, and others.
    (_closed("a", "ab"), '{} {"a":1} {"ab":1,"a":2}', '{"b":1} {"abc":1} {"":1} {"a":1,"a":2} {"a":1,"ab":1,"a":1}'),
    (_closed("a", required=["a"]), '{"a":[]}', '{} {"b":1} {"a":1,"b":1}'),
    (_object(additionalProperties=False), "{}", '{"a":1} {"":1}'),
    (_object(additionalProperties={"type": "integer"}), '{} {"x":1} {"x":1,"y":2}', '{"x":"1"} {"x":1,"x":2} {"x":1,"y":null}'),
    (_object(properties={"a": {"type": "string"}}, additionalProperties={"type": "integer"}), '{"a":"x","b":1} {"b":1,"a":""}', '{"a":1} {"b":"x"} {"b":1,"b":2} {"a":"","a":""}'),
    (_object(properties={"é": {"const": 1}, '"': {"const": 2}}, additionalProperties=False), '{"é":1,"\\"":2}', '{"é":2} {"\\"":1} {"e":1}'),
    # Patterns.
    (_object(patternProperties={"^a": {"type": "integer"}}), '{} {"a":1,"b":"x","ab":2}', '{"a":"x"} {"ab":null}'),
    (_object(patternProperties={"^a": {"type": "integer"}}, additionalProperties=False), '{"a":1,"ax":2}', '{"b":1} {"a":1,"a":2}'),
    (_object(patternProperties={"a": {"minimum": 3}, "b": {"maximum": 5}}), '{"a":9,"b":0,"ab":4} {"c":99}', '{"ab":2} {"ab":6} {"a":0} {"b":6}'),
    (_object(properties={"ab": {"minimum": 1}}, patternProperties={"a": {"maximum": 3}}, additionalProperties={"const": 7}), '{"ab":2,"xa":3,"y":7}', '{"ab":0} {"ab":4} {"y":3} {"xa":4}'),
    # A pattern that finitely many names fit: each of them at most once.
    (_object(patternProperties={"^(a|b)$": {}}, additionalProperties=False), '{} {"a":1} {"b":1,"a":2}', '{"c":1} {"a":1,"a":2} {"a":1,"b":1,"a":1}'),
    (_object(patternProperties={"^(a|b)$": {}}, additionalProperties=False, minProperties=2), '{"a":1,"b":2} {"b":1,"a":2}', '{} {"a":1} {"a":1,"a":2}'),
    (_object(patternProperties={"^(a|bc)$": {}}, properties={"a": {"const": 1}}, additionalProperties=False), '{"a":1,"bc":2} {"bc":3}', '{"a":2} {"bc":1,"bc":1} {"b":1}'),
    (_object(patternProperties={"^[a-c]$": {"type": "null"}}, additionalProperties=False, minProperties=3), '{"b":null,"a":null,"c":null}', '{"a":null,"b":null} {"a":null,"b":null,"a":null}'),
    # Names as strings.
    (_object(propertyNames={"pattern": "^a"}), '{} {"a":1,"ab":2}', '{"b":1} {"a":1,"b":2} {"":1}'),
    (_object(propertyNames={"maxLength": 1}), '{"a":1,"":2,"é":3}', '{"ab":1} {"éé":1}'),
    (_object(propertyNames={"enum": ["a", "b"]}), '{} {"b":1,"a":2}', '{"c":1} {"a":1,"a":1}'),
    (_object(propertyNames={"enum": ["a", "b"]}, minProperties=2), '{"b":1,"a":2}', '{"a":1} {"a":1,"c":1}'),
    (_object(propertyNames={"not": {"const": "a"}}), '{"b":1,"aa":2}', '{"a":1} {"b":1,"a":2}'),
    (_object(propertyNames=False), "{}", '{"a":1}'),
    (_object(propertyNames={"pattern": "^a"}, properties={"b": {}}, required=["a"]), '{"a":1}', '{"b":1,"a":1} {}'),
    # Counts.
    (_object(minProperties=2), '{"a":1,"b":2} {"a":1,"b":2,"c":3}', '{} {"a":1} {"a":1,"a":2}'),
    (_object(maxProperties=1), '{} {"a":1}', '{"a":1,"b":2}'),
    (_object(maxProperties=0), "{}", '{"a":1}'),
    (_object(minProperties=2, maxProperties=2, required=["a"]), '{"a":1,"b":2} {"b":1,"a":2}', '{"a":1} {"b":1,"c":2} {"a":1,"b":2,"c":3}'),
    (_closed("a", "b", "c", minProperties=2), '{"c":1,"a":2}', '{"b":1} {}'),
    (_closed("a", "b", "c", maxProperties=2), '{"c":1,"a":2} {}', '{"b":1,"a":1,"c":1}'),
    # Names that require others.
    (_object(dependentRequired={"a": ["b"]}), '{} {"b":1} {"b":1,"a":2} {"a":1,"b":2}', '{"a":1} {"a":1,"c":2}'),
    (_closed("a", "b", dependentRequired={"a": ["b"], "b": ["a"]}), '{} {"a":1,"b":2}', '{"a":1} {"b":1}'),
    (_object(dependentSchemas={"a": {"properties": {"b": {"const": 1}}}}), '{"a":0,"b":1} {"b":2} {"b":1,"a":0}', '{"a":0,"b":2} {"b":2,"a":0}'),
    (_object(dependentSchemas={"a": {"maxProperties": 1}}), '{"a":1} {"b":1,"c":2}', '{"a":1,"b":2} {"b":2,"a":1}'),
    (_object(dependentSchemas={"a": False}), '{} {"b":1}', '{"a":1}'),
    # Unions of objects.
    ({"oneOf": [_object(properties={"k": {"const": "a"}, "x": {"type": "integer"}}, required=["k"]), _object(properties={"k": {"const": "b"}, "x": {"type": "string"}}, required=["k"])]}, '{"k":"a","x":1} {"k":"b","x":"1"} {"x":1,"k":"a"} {"x":"1","k":"b"}', '{"k":"a","x":"1"} {"x":1,"k":"b"} {} {"x":1}'),
    ({"anyOf": [_closed("a", required=["a"]), _closed("b", required=["b"])]}, '{"a":1} {"b":1}', '{} {"a":1,"b":2}'),
    ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"a":1} {"b":1,"c":2}', '{} {"a":1,"b":2} {"b":1,"a":1}'),
    ({"type": "object", "oneOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"maximum": 5}}}]}, '{"a":2} {"a":6}', '{} {"a":4} {"b":1} {"a":null}'),
    ({"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 1}}}]}, '{} {"a":1,"b":2} {"a":2,"b":1} {"b":2,"a":1} {"a":2}', '{"a":2,"b":2} {"b":3,"a":3}'),
    ({"allOf": [_object(properties={"a": {"minimum": 1}}), {"properties": {"a": {"maximum": 2}}, "required": ["a"]}]}, '{"a":1} {"a":2,"b":0}', '{} {"a":0} {"a":3}'),
    (_object(**{"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}), '{"a":1,"b":2} {"a":2,"c":3} {"c":1} {"b":1,"a":1}', '{"a":1} {"a":1,"c":2} {} {"a":2}'),
    (_object(**{"if": {"required": ["a"]}, "then": {"properties": {"b": {"const": 1}}}}), '{"a":1,"b":1} {"b":2}', '{"a":1,"b":2} {"b":2,"a":1}'),
    # Negations.
    (_object(**{"not": {"required": ["a"]}}), '{} {"b":1}', '{"a":1} {"b":1,"a":2}'),
    (_object(**{"not": {"required": ["a", "b"]}}), '{} {"a":1} {"b":1}', '{"a":1,"b":2} {"b":2,"a":1}'),
    (_object(**{"not": {"properties": {"a": {"const": 1}}}}), '{"a":2} {"b":1,"a":null}', '{} {"a":1} {"b":2}'),
    (_object(**{"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}}), '{} {"a":2} {"b":1}', '{"a":1}'),
    (_object(**{"not": {"additionalProperties": False, "properties": {"a": {}}}}), '{"b":1} {"a":1,"b":2}', '{} {"a":1}'),
    (_object(**{"not": {"minProperties": 2}}), '{} {"a":1}', '{"a":1,"b":2}'),
    (_object(**{"not": {"maxProperties": 1}}), '{"a":1,"b":2}', '{} {"a":1}'),
    (_object(**{"not": {"propertyNames": {"pattern": "^a"}}}), '{"b":1} {"a":1,"b":2}', '{} {"a":1} {"ab":1}'),
    (_object(**{"not": {"patternProperties": {"^a": {"type": "integer"}}}}), '{"a":"x"} {"b":1,"ab":null}', '{} {"a":1} {"b":"x"}'),
    ({"not": {"type": "object"}}, '1 [] "a"', '{} {"a":1}'),
    ({"not": {"required": ["a"]}}, '{} {"b":1}', '{"a":1} 1 [] null'),
    ({"not": _object(required=["a"])}, '{} 1 [] {"b":1}', '{"a":1}'),
    # Whole objects as values.
    ({"const": {"a": 1, "b": [True]}}, '{"a":1,"b":[true]} {"b":[true],"a":1}', '{} {"a":1} {"a":1,"b":[]} {"a":1,"b":[true],"c":1}'),
    ({"enum": [{}, {"a": 1}, {"a": 2, "b": 1}, 5]}, '{} {"a":1} {"a":2,"b":1} {"b":1,"a":2} 5', '{"a":2} {"b":1} {"a":1,"b":1}'),
    (_object(**{"not": {"const": {"a": 1}}}), '{} {"a":2} {"a":1,"b":1}', '{"a":1}'),
    # Unevaluated members.
    (_object(properties={"a": {}}, unevaluatedProperties=False), '{} {"a":1}', '{"b":1} {"a":1,"b":1}'),
    ({"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, '{"a":1}', '{"b":1}'),
    ({"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}], "unevaluatedProperties": False}, '{"a":1} {"b":2} {"a":1,"b":2} {"b":2,"a":1}', '{} {"a":2} {"a":2,"b":1} {"a":1,"c":1}'),
    ({"type": "object", "if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}, "unevaluatedProperties": False}, '{"a":1,"b":2} {"b":2,"a":1} {"c":1} {}', '{"b":1} {"a":1,"c":1} {"a":2}'),
    (_object(patternProperties={"^x": {}}, unevaluatedProperties={"type": "integer"}), '{"x":null,"y":1}', '{"y":null}'),
    ({"$defs": {"base": {"properties": {"a": {}}}}, "type": "object", "$ref": "#/$defs/base", "properties": {"b": {}}, "unevaluatedProperties": False}, '{"a":1,"b":2} {"b":1}', '{"c":1}'),
    # Recursion.
    ({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}, '{} {"next":{}} {"next":{"next":{}}}', '{"next":1} {"next":{"x":1}}'),
    ({"anyOf": [{"type": "integer"}, {"type": "object", "additionalProperties": {"$ref": "#"}}]}, '1 {} {"a":1} {"a":{"b":2},"c":3}', '"a" {"a":"b"} {"a":{"b":null}}'),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_objects(row: Row) -> None:
    assert_row(row, _ANY_ORDER)


_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


def test_every_name_of_a_class_with_few_names_may_be_needed() -> None:
    """Also if nothing tells their letters apart."""
    schema = {"propertyNames": {"pattern": "^[!-~]$"}, "type": "object"}
    document = json.dumps(dict.fromkeys(_PRINTABLE, 1), separators=(",", ":"))
    assert accepts(machine_of({**schema, "minProperties": len(_PRINTABLE)}), document)
    with pytest.raises(UnsatisfiableError):
        machine_of({**schema, "minProperties": len(_PRINTABLE) + 1})
