"""Documents under schemas in which hard keywords meet, inside one another and side by side."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import string

import pytest

from guided.spec import JsonOptions
from tests.unit.json_schema.documents import Row, assert_row

_LETTERS = "{" + ",".join(f'"{letter}":1' for letter in string.ascii_lowercase) + "}"

ROWS: list[Row] = [
    (True, '1 "a" [1] {"a":[{}]} null', "a [ {"),
    ({}, '[{"a":1},true] ""', "{]}"),
    ({"type": ["object", "array"]}, '{} [] {"a":[1]}', '1 "a" null'),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, '"a" 1', "null [] 1.5"),
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "1.5 -0.25", '1 "a"'),
    ({"allOf": [{"type": ["string", "null"]}, {"type": ["null", "integer"]}]}, "null", '"a" 1'),
    ({"not": {"anyOf": [{"type": "string"}, {"minimum": 3}]}}, "1 2.5 0", '"a" 3 null []'),
    ({"not": {"type": ["object", "array", "string"]}}, "1 null true", '{} [] ""'),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}, '"ab" null', '"a" 1 []'),
    ({"oneOf": [{"type": "object"}, {"type": "array"}, {"type": ["array", "null"]}]}, '{} null {"a":1}', "[] [1] 1"),
    ({"oneOf": [{"const": 1}, {"const": 2}, {"enum": [2, 3]}]}, "1 3", "2 4"),
    ({"oneOf": [True, False]}, "1 []", "[1"),
    ({"oneOf": [{"oneOf": [{"const": 1}, {"const": 2}]}, {"oneOf": [{"const": 2}, {"const": 3}]}]}, "1 3", "2 4"),
    # A verdict on a value decides what may follow it.
    ({"type": "object", "oneOf": [{"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}, {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}], "required": ["a", "b"]}, '{"a":1,"b":"x"} {"a":"x","b":1} {"b":1,"a":"x"}', '{"a":1,"b":1} {"a":"x","b":"x"} {"b":"x","a":"x"}'),
    ({"type": "array", "oneOf": [{"prefixItems": [{"type": "object", "required": ["a"]}]}, {"contains": {"const": 1}}]}, '[] [{"a":1}] [{},1] [1]', '[{}] [{"a":1},1] [2]'),
    ({"type": "object", "properties": {"a": {"oneOf": [{"required": ["x"]}, {"required": ["y"]}], "type": "object"}}, "not": {"properties": {"a": {"required": ["x"]}}}}, '{"a":{"y":1}} {"a":{"y":1,"z":2}}', '{} {"a":{"x":1}} {"a":{}} {"a":{"x":1,"y":2}}'),
    ({"type": "array", "items": {"type": "object", "properties": {"id": {"enum": [1, 2]}}, "required": ["id"], "additionalProperties": False}, "uniqueItems": True, "minItems": 2}, '[{"id":1},{"id":2}] [{"id":2},{"id":1}]', '[{"id":1}] [{"id":1},{"id":1}] [{"id":1},{"id":2},{"id":1}]'),
    ({"type": "array", "contains": {"type": "array", "contains": {"const": 1}}}, "[[1]] [[],[2,1]]", "[] [[]] [1] [[2]]"),
    ({"type": "array", "contains": {"type": "array", "contains": {"const": 1}}, "maxContains": 1}, "[[1]] [[1],[2]]", "[[1],[1,1]] []"),
    ({"type": "array", "items": {"oneOf": [{"type": "array", "minItems": 1}, {"type": "array", "maxItems": 1}]}}, "[] [[]] [[1,2],[]]", "[[1]] [[],[1]] [1]"),
    ({"type": "object", "additionalProperties": {"type": "array", "uniqueItems": True}, "minProperties": 1}, '{"a":[]} {"x":[1,2],"y":[1]}', '{} {"a":[1,1]} {"a":1}'),
    ({"type": "object", "patternProperties": {"^a": {"not": {"const": 1}}, "b$": {"type": "integer"}}, "minProperties": 1}, '{"ab":2} {"a":"x"} {"c":1}', '{"ab":1} {"ab":"x"} {"a":1} {}'),
    ({"type": "object", "required": ["a"], "patternProperties": {"^[ab]$": {"type": "integer"}}, "maxProperties": 2, "additionalProperties": False}, '{"a":1} {"b":1,"a":2}', '{"b":1} {"a":"x"} {"c":1,"a":1}'),
    ({"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^(a|b|c)$"}, "not": {"required": ["a"]}}, '{"b":1,"c":2} {"c":1,"b":2}', '{"a":1,"b":1} {"b":1} {"b":1,"d":1}'),
    ({"type": "object", "anyOf": [{"minProperties": 3}, {"required": ["a"]}]}, '{"a":1} {"b":1,"c":2,"d":3}', '{} {"b":1,"c":2}'),
    ({"type": "object", "oneOf": [{"minProperties": 1}, {"required": ["a"]}]}, '{"b":1} {"b":1,"c":1}', '{} {"a":1} {"b":1,"a":1}'),
    ({"type": "object", "dependentRequired": {"a": ["b"], "b": ["c"]}, "maxProperties": 3, "additionalProperties": False, "properties": {"a": {}, "b": {}, "c": {}}}, '{} {"c":1} {"b":1,"c":1} {"a":1,"b":1,"c":1}', '{"a":1} {"b":1} {"a":1,"b":1} {"a":1,"c":1}'),
    ({"type": "object", "properties": {"kind": {"enum": ["p", "q"]}}, "required": ["kind"], "allOf": [{"if": {"properties": {"kind": {"const": "p"}}}, "then": {"required": ["x"]}}, {"if": {"properties": {"kind": {"const": "q"}}}, "then": {"required": ["y"]}}], "unevaluatedProperties": {"type": "integer"}}, '{"kind":"p","x":1} {"y":1,"kind":"q"}', '{"kind":"p","y":1} {"kind":"q"} {"kind":"p","x":"a"}'),
    ({"$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer"}, "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}, "dependentRequired": {"l": ["r"], "r": ["l"]}, "additionalProperties": False}}, "$ref": "#/$defs/t"}, '{} {"v":1} {"l":{},"r":{"v":2}} {"l":{"l":{},"r":{}},"r":{}}', '{"l":{}} {"l":{},"r":{"r":{}}} {"v":"x"}'),
    ({"$defs": {"list": {"oneOf": [{"type": "null"}, {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/list"}], "items": False, "minItems": 2}]}}, "$ref": "#/$defs/list"}, "null [1,null] [1,[2,null]]", "[1] [1,[2]] [null] [1,null,null]"),
    ({"type": "array", "items": {"enum": [1, [1], {"a": 1}]}, "uniqueItems": True, "minItems": 3}, '[1,[1],{"a":1}] [{"a":1},1,[1]]', '[1,[1]] [1,[1],1] [[1],[1],1]'),
    ({"type": "array", "prefixItems": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"enum": ["c"]}], "minItems": 3, "items": False, "uniqueItems": True}, '["a","b","c"]', '["b","b","c"] ["a","c","c"] ["b","c","c"]'),
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#"}, "uniqueItems": True}}, "additionalProperties": False}, '{} {"a":[]} {"a":[{},{"a":[]}]}', '{"a":[{},{}]} {"a":[1]}'),
    ({"type": "object", "additionalProperties": {"anyOf": [{"type": "object", "required": ["x"]}, {"type": "object", "maxProperties": 0}]}}, '{} {"a":{}} {"a":{"x":1}} {"a":{"y":1,"x":2}}', '{"a":{"y":1}} {"a":1}'),
    ({"type": "object", "not": {"anyOf": [{"required": ["a"]}, {"maxProperties": 0}, {"propertyNames": {"maxLength": 1}}]}}, '{"bb":1} {"c":1,"bb":2}', '{} {"c":1} {"a":1,"bb":1}'),
    # A name may make the remainder contradict itself.
    ({"type": "object", "properties": {"aa": False}, "dependentRequired": {"c": ["aa"]}}, '{} {"b":1}', '{"c":1} {"b":1,"c":1}'),
    ({"type": "object", "properties": {"a": False}, "dependentSchemas": {"b": {"required": ["a"]}, "c": {"maxProperties": 0}}}, '{} {"d":1}', '{"b":1} {"c":1} {"a":1}'),
    # Many formulas are asked of one value, and only one verdict on it will do.
    ({"anyOf": [{"additionalProperties": False}, {"properties": {"c": {"type": "object"}}}], "oneOf": [{"if": {"required": ["a"]}, "then": {"anyOf": [{"type": "object"}], "additionalProperties": False}, "else": {"patternProperties": {"^[cd]": {"type": "integer"}}, "oneOf": [{"properties": {"c": {"const": 0.5}}, "required": ["a"]}, {"properties": {"aa": True}, "required": ["a"]}]}}, {"oneOf": [{"patternProperties": {".": {"minLength": 1}}}, True]}]}, '{"c":{},"aa":""} {"aa":"","c":{}} {"a":""}', '{"c":""} {} {"a":"x"}'),
    # Earlier items leave only one order of the others, or none.
    ({"type": "array", "uniqueItems": True, "items": {"type": "array", "uniqueItems": True, "items": {"enum": [[2], [], ["a", False]]}, "minItems": 3}}, '[[[2],[],["a",false]],[[2],["a",false],[]]]', '[[[2],[],["a",false]],[[2],[],["a",false]]] [[[2],[]]]'),
    ({"type": "array", "uniqueItems": True, "prefixItems": [{"enum": [1, 2, 3]}, {"enum": [1, 2]}, {"const": 1}], "minItems": 3, "items": False}, "[3,2,1]", "[1,2,1] [2,1,1] [3,1,1] [3,2]"),
    ({"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}}, "required": ["a", "b"], "additionalProperties": False}, "minItems": 4}, '[{"a":1,"b":1},{"a":1,"b":2},{"a":2,"b":1},{"a":2,"b":2}]', '[{"a":1,"b":1},{"a":1,"b":2},{"a":2,"b":1}]'),
    # Every name that a pattern leaves is needed.
    ({"type": "object", "patternProperties": {"^[a-z]$": {}}, "additionalProperties": False, "minProperties": 26}, _LETTERS, _LETTERS.replace(',"z":1', "")),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_hard_keywords_together(row: Row) -> None:
    assert_row(row, JsonOptions(key_order="any"))


def test_many_alternatives_that_overlap() -> None:
    """With too many formulas to try every combination, the likely verdicts are considered."""
    options = JsonOptions(key_order="any")
    branches = [{"properties": {"a": {"minimum": n}}, "required": ["a"]} for n in range(8)]
    schema = {"type": "object", "anyOf": [{**b, "maxProperties": 1} for b in branches]}
    assert_row((schema, '{"a":0} {"a":9}', '{} {"a":-1} {"b":1}'), options)
    names = [{"properties": {"a": {"const": n}, "b": {"const": n}}} for n in range(7)]
    schema = {"type": "object", "anyOf": names, "required": ["a", "b"]}
    assert_row((schema, '{"a":3,"b":3} {"b":6,"a":6}', '{"a":3,"b":4} {"a":9,"b":9}'), options)
