"""Arrays that schemas accept and reject."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

from typing import Any

import pytest

from guided.spec import JsonOptions
from tests.unit.json_schema.documents import Row, assert_row


def _array(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", **keywords}


_DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
_INTEGER = {"type": "integer"}
_UNIQUE = {"type": "array", "uniqueItems": True}

ROWS: list[Row] = [
    (_array(), '[] [1] [1,"a",[],{}] [[[]]]', "[1,] [,1] [,] {} [1"),
    (_array(items=_INTEGER), "[] [1] [1,2,3]", '["a"] [1,null] [1.5]'),
    (_array(items=False), "[]", "[1] [[]]"),
    (_array(prefixItems=[{"const": 1}, {"const": "a"}]), '[] [1] [1,"a"] [1,"a",null]', '[2] [1,1] ["a"]'),
    (_array(prefixItems=[{"const": 1}], items={"const": 2}), "[] [1] [1,2,2]", "[2] [1,1] [1,2,1]"),
    (_array(prefixItems=[{"const": 1}], items=False), "[] [1]", "[1,1]"),
    # Both lists, for readers of several drafts: what either asks is asked.
    (_array(items=[{"const": 1}], prefixItems=[_INTEGER, {"const": 2}]), "[] [1] [1,2] [1,2,null]", "[2] [1,3]"),
    (_array(items=[_INTEGER], additionalItems=False, prefixItems=[{"const": 1}]), "[] [1]", "[2] [1,1]"),
    (_array(items=[_INTEGER], prefixItems=[{}, {"const": 2}], unevaluatedItems=False), "[1] [1,2]", '["a"] [1,3] [1,2,3]'),
    (_array(prefixItems=[{}, False]), "[] [1]", "[1,2]"),
    (_array(minItems=2), "[1,2] [1,2,3]", "[] [1]"),
    (_array(maxItems=1), "[] [1]", "[1,2]"),
    (_array(maxItems=0), "[]", "[1]"),
    (_array(minItems=2, maxItems=2, items=_INTEGER), "[1,2]", "[1] [1,2,3]"),
    (_array(minItems=30, maxItems=30, items={"const": 1}), f"[{','.join('1' * 30)}]", f"[{','.join('1' * 29)}] [1]"),
    ({"minItems": 1}, '[1] 1 "a" {}', "[]"),
    # How many items fit.
    (_array(contains={"const": 1}), '[1] [2,1] [1,1,"a"]', "[] [2] [2,3]"),
    (_array(contains={"const": 1}, minContains=2), "[1,1] [1,2,1]", "[1] [2,1]"),
    (_array(contains={"const": 1}, maxContains=1), "[1] [2,1,2]", "[] [1,1] [1,2,1]"),
    (_array(contains={"const": 1}, minContains=0), "[] [2] [1]", "{}"),
    (_array(contains={"const": 1}, minContains=0, maxContains=1), "[] [2] [1,2]", "[1,1]"),
    (_array(contains={"const": 1}, minContains=1, maxContains=2, maxItems=3), "[1] [1,2,1] [2,2,1]", "[2,2,2] [1,1,1] [2,2,2,1]"),
    (_array(contains={"type": "object", "required": ["a"]}), '[{"a":1}] [1,{"b":1},{"a":2}]', '[] [{}] [{"b":1}]'),
    (_array(allOf=[{"contains": {"const": 1}}, {"contains": {"const": 2}}], maxItems=2), "[1,2] [2,1]", "[1] [1,1] [1,2,3]"),
    (_array(allOf=[{"contains": {"const": 1}}, {"contains": {"type": "string"}}], items={"enum": [1, 2, "a"]}), '[1,"a"] ["a",2,1]', '[1] ["a"] [2,"a"]'),
    (_array(contains={"const": 1}, items={"enum": [1, 2]}, minItems=2), "[2,1] [1,1]", "[2,2] [1]"),
    (_array(**{"not": {"contains": {"const": 1}}}), "[] [2]", "[1] [2,1]"),
    (_array(contains=True), "[1]", "[]"),
    (_array(contains=False, minContains=0), "[] [1]", "{}"),
    (_array(contains={"minimum": 3}, prefixItems=[{"maximum": 1}, {"maximum": 4}], items=False), "[1,3] [0,4] [\"a\"]", "[1] [1,2] [3]"),
    # Items that differ.
    (_UNIQUE, '[] [1,2] ["1",1] [[],[1]] [{},{"a":1}] [1,true] [0,false] [null,0]', '[1,1] ["a","a"] [[],[]] [{},{}] [null,null]'),
    (_UNIQUE, '[1,1.5] [10,1] ["a","aa"] [{"a":1,"b":2},{"a":2,"b":1}]', '[1,2,1] [1,1.0] [{"a":1,"b":2},{"b":2,"a":1}] [[1,[2]],[1,[2]]]'),
    (_UNIQUE | {"items": {"type": "boolean"}}, "[] [true] [false,true]", "[true,true] [true,false,true]"),
    (_UNIQUE | {"items": {"type": "boolean"}, "minItems": 2}, "[false,true]", "[true] [true,true]"),
    (_UNIQUE | {"items": {"enum": [1, 2, 3]}, "minItems": 3}, "[1,2,3] [3,1,2]", "[1,2] [1,2,1] [1,2,3,1]"),
    (_UNIQUE | {"items": {"enum": ["a", "b"]}}, '["a"] ["b","a"]', '["a","a"] ["a","b","a"]'),
    (_UNIQUE | {"items": {"type": "integer", "minimum": 0, "maximum": 2}, "minItems": 3}, "[2,0,1]", "[2,0] [0,0,1] [2,0,1,0]"),
    (_UNIQUE | {"items": {"type": "string", "pattern": "^[ab]$"}, "minItems": 2}, '["a","b"]', '["a"] ["a","a"]'),
    (_UNIQUE | {"items": {"type": "string", "maxLength": 1}}, '["","a","b"]', '["",""] ["a","b","a"]'),
    (_UNIQUE | {"items": {"type": "array", "items": {"enum": [0, 1]}, "maxItems": 1}}, "[[],[0],[1]]", "[[],[]] [[0],[1],[0]]"),
    (_UNIQUE | {"items": {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False}}, '[{},{"a":true},{"a":false}]', '[{},{}] [{"a":true},{"a":true}]'),
    (_UNIQUE | {"items": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}, "minItems": 2}, '[{"a":true},{"a":false}]', '[{"a":true}] [{"a":true},{"a":true}]'),
    (_UNIQUE | {"items": _UNIQUE | {"items": {"enum": [1, 2]}}}, "[[],[1,2],[2,1],[1]]", "[[1,1]] [[1,2],[1,2]] [[1],[1]]"),
    (_UNIQUE | {"prefixItems": [{"enum": [1, 2]}, {"const": 1}]}, "[2,1] [1] [2]", "[1,1]"),
    (_UNIQUE | {"prefixItems": [{"enum": [1, 2]}, {"const": 1}], "minItems": 2}, "[2,1]", "[1,1] [1] [1,2]"),
    (_UNIQUE | {"contains": {"const": 1}, "items": {"enum": [1, 2]}}, "[1] [2,1]", "[2] [1,1] [2,2]"),
    ({"type": "array", "not": {"uniqueItems": True}}, '[1,1] [2,1,2] ["a","a"]', "[] [1] [1,2]"),
    ({"type": "array", "uniqueItems": False}, "[1,1]", "{}"),
    # Combinations.
    (_array(anyOf=[{"items": {"const": 1}}, {"items": {"const": 2}}]), "[] [1,1] [2,2]", "[1,2] [2,1] [3]"),
    (_array(oneOf=[{"items": {"minimum": 3}}, {"items": {"maximum": 5}}]), "[2] [6,7] [1,4]", "[] [4] [3,5] [2,6]"),
    (_array(oneOf=[{"minItems": 2}, {"items": {"const": 1}}]), "[] [1] [1,2] [2,2]", "[1,1] [2]"),
    (_array(allOf=[{"items": {"minimum": 1}}, {"items": {"maximum": 2}}], items=_INTEGER), "[1,2]", "[0] [3] [1,3]"),
    (_array(**{"not": {"items": {"const": 1}}}), "[2] [1,2] [2,1]", "[] [1] [1,1]"),
    (_array(**{"not": {"prefixItems": [{"const": 1}, {"const": 2}]}}), "[2] [1,1] [2,2]", "[] [1] [1,2] [1,2,3]"),
    (_array(**{"not": {"minItems": 2}}), "[] [1]", "[1,2]"),
    (_array(**{"not": {"maxItems": 1}}), "[1,2]", "[] [1]"),
    (_array(**{"not": {"minItems": 1, "maxItems": 2}}), "[] [1,2,3]", "[1] [1,2]"),
    (_array(**{"if": {"prefixItems": [{"const": "n"}]}, "then": {"items": _INTEGER, "prefixItems": [{}]}, "else": {"maxItems": 1}}), '[] ["n"] ["n",1,2] ["s"]', '["n","x"] ["s","t"]'),
    (_array(items={"anyOf": [_INTEGER, _array(items={"$ref": "#"})]}), "[] [1] [[],[[1]]]", '["a"] [["a"]] [[1]]'),
    ({"not": {"type": "array"}}, "1 {} null", "[] [1]"),
    # Whole arrays as values.
    ({"const": [1, ["a"], {}]}, '[1,["a"],{}]', '[] [1] [1,["a"]] [1,["b"],{}] [1,["a"],{},1]'),
    ({"enum": [[], [1], [1, 2], "x"]}, '[] [1] [1,2] "x"', "[2] [1,1] [1,2,3]"),
    (_array(**{"not": {"const": [1]}}), "[] [2] [1,1]", "[1]"),
    # Unevaluated items.
    (_array(prefixItems=[{}], unevaluatedItems=False), "[] [1]", "[1,2]"),
    (_array(prefixItems=[{}], unevaluatedItems=_INTEGER), '["a"] ["a",1]', '["a","b"]'),
    (_array(allOf=[{"prefixItems": [{}, {}]}], unevaluatedItems=False), "[1,2]", "[1,2,3]"),
    (_array(anyOf=[{"prefixItems": [{"const": 1}]}, {"prefixItems": [{}, {"const": 2}]}], unevaluatedItems=False), "[] [1] [1,2] [3,2] [3]", "[3,3] [1,3] [3,2,1]"),
    (_array(contains={"const": 1}, unevaluatedItems=False), "[1] [1,1]", "[] [2] [1,2]"),
    # Before draft 2020-12 ``contains`` evaluates nothing (2019-09, 9.3.1.3).
    (_array(**{"$schema": _DRAFT_2019}, items=[{}], contains={"type": "string"}, unevaluatedItems=_INTEGER), '["a"] ["a",1]', '["a","b"] [1,"a"]'),
    (_array(contains={"const": 1}, unevaluatedItems={"type": "string"}), '[1,"a"] ["a",1]', '[1,2] ["a"]'),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_arrays(row: Row) -> None:
    assert_row(row, JsonOptions(key_order="any"))
