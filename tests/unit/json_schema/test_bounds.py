"""Bounds of the options on arrays and objects that schemas do not bound."""

from __future__ import annotations

from typing import Any

import pytest

from guided.constraint.check import check
from guided.spec import JsonOptions, KeyOrder
from tests.unit.json_schema.documents import Row, assert_row, machine_of, reached


def _array(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", **keywords}


def _object(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords}


_INTEGER = {"type": "integer"}

OF_ARRAYS: list[Row] = [
    (_array(), "[] [1] [1,2]", "[1,2,3]"),
    (_array(items=_INTEGER), "[] [1,2]", "[1,2,3] [1,2,3,4]"),
    (_array(items=_array()), "[[1,2],[3,4]] [[],[]]", "[[],[],[]] [[1,2,3]]"),
    (_object(properties={"a": _array()}), '{"a":[1,2]}', '{"a":[1,2,3]}'),
    (True, "[1,2] [[1,2]]", "[1,2,3] [[1,2,3]]"),
    # The schema's own bound counts, where it has one.
    (_array(maxItems=4), "[1,2,3,4]", "[1,2,3,4,5]"),
    (_array(maxItems=1), "[1]", "[1,2]"),
    ({"allOf": [_array(), {"maxItems": 3}]}, "[1,2,3]", "[1,2,3,4]"),
    (_array(prefixItems=[_INTEGER] * 4), "[1,2,3,4]", "[1,2,3,4,5]"),
    (_array(prefixItems=[_INTEGER] * 3, items=False), "[1,2,3]", "[1,2,3,4]"),
    # An array that may not end goes on until it may.
    (_array(minItems=4), "[1,2,3,4]", "[1,2] [1,2,3,4,5]"),
    (_array(contains={"const": "x"}), '["x"] [1,"x"] [1,2,"x"] [1,2,3,"x"]', '[1,2] ["x",1,2]'),
    (_array(contains={"const": 1}, minContains=3), "[1,1,1] [1,1,2,1]", "[1,1] [1,1,1,1]"),
    (_array(uniqueItems=True, minItems=3), "[1,2,3]", "[1,2] [1,2,1] [1,2,3,4]"),
    ({"items": {"contains": {"const": 1}}}, "[[1],[1,2]] [[2,2,1]]", "[[1],[1],[1]] [[1,1,1]]"),
    (
        {"anyOf": [_array(items=_INTEGER, minItems=3), _array(items={"type": "string"})]},
        '[1,2,3] ["a","b"]',
        '[1,2] [1,2,3,4] ["a","b","c"]',
    ),
]

OF_OBJECTS: list[Row] = [
    (_object(), '{} {"a":1} {"a":1,"b":2}', '{"a":1,"b":2,"c":3}'),
    (_object(additionalProperties=_object()), '{"a":{"c":{}},"b":{}}', '{"a":{},"b":{},"c":{}}'),
    # Members that the schema names do not count.
    (
        _object(properties={"a": {}, "b": {}, "c": {}}),
        '{"a":1,"b":2,"c":3,"d":4,"e":5}',
        '{"a":1,"d":4,"e":5,"f":6}',
    ),
    (_object(maxProperties=4), '{"a":1,"b":2,"c":3,"d":4}', '{"a":1,"b":2,"c":3,"d":4,"e":5}'),
    (_object(minProperties=3), '{"a":1,"b":2,"c":3}', '{"a":1,"b":2} {"a":1,"b":2,"c":3,"d":4}'),
    (
        _object(patternProperties={"^x": _INTEGER}, additionalProperties=False),
        '{"x1":1,"x2":2}',
        '{"x1":1,"x2":2,"x3":3}',
    ),
    (
        _object(additionalProperties=_object(required=["a"])),
        '{"b":{"a":1,"c":2,"d":3}}',
        '{"b":{"a":1,"c":2,"d":3,"e":4}}',
    ),
]


@pytest.mark.parametrize("row", OF_ARRAYS, ids=str)
def test_arrays_end_after_as_many_items_as_the_options_allow(row: Row) -> None:
    assert_row(row, JsonOptions(max_array_items=2))


@pytest.mark.parametrize("order", KeyOrder)
@pytest.mark.parametrize("row", OF_OBJECTS, ids=str)
def test_objects_end_after_as_many_members_as_the_options_allow(row: Row, order: KeyOrder) -> None:
    assert_row(row, JsonOptions(max_additional_members=2, key_order=order))


def test_without_the_options_nothing_is_bounded() -> None:
    assert_row((True, f"[{','.join('1' * 50)}]", "["))
    assert_row((True, "{" + ",".join(f'"k{n}":1' for n in range(50)) + "}", "{"))


def test_where_a_bound_is_reached_the_end_is_forced() -> None:
    machine = machine_of(_array(items=_INTEGER), JsonOptions(max_array_items=2))
    assert machine.only_byte(reached(machine, "[1,")) is None
    machine = machine_of(_array(items={"const": 7}), JsonOptions(max_array_items=2))
    assert machine.only_byte(reached(machine, "[7,7")) == ord("]")


def test_a_report_tells_of_the_bound() -> None:
    (verdict,) = check({"type": "array"}, json_options=JsonOptions(max_array_items=3)).verdicts
    assert verdict.note == "at most 3 items, unless the array may not end there"
    listed = {"type": "array", "prefixItems": [True] * 4}
    notes = {
        verdict.note
        for verdict in check(listed, json_options=JsonOptions(max_array_items=3)).verdicts
    }
    assert "at most 4 items, unless the array may not end there" in notes
    closed = check(listed | {"items": False}, json_options=JsonOptions(max_array_items=3))
    assert not any(verdict.note.startswith("at most") for verdict in closed.verdicts)
    (verdict,) = check(
        {"type": "object"}, json_options=JsonOptions(max_additional_members=3)
    ).verdicts
    assert verdict.note == "at most 3 unnamed members, unless the object may not end there"
