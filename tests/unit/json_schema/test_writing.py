"""Options for writing documents that their schema leaves open: white space and key order."""

from __future__ import annotations

import pytest

from guided.spec import JsonOptions, KeyOrder
from tests.unit.json_schema.documents import Row, accepts, assert_row, machine_of, reached

_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
_LIST = {"type": "array", "items": {"type": "integer"}}

SPACES = [
    (0, '{"name":"a","age":1}', True),
    (0, '{"name": "a"}', False),
    (1, '{ "name" : "a" , "age" : 1 }', True),
    (1, '{"name":  "a"}', False),
    (2, '{\n "name":\t "a"}', True),
    (2, '{   "name":"a"}', False),
    (None, '{ \n\t\r "name"    :     "a"           }', True),
    (None, '{"name": "a"\f}', False),
    (None, ' {"name":"a"}', False),
    (None, '{"name":"a"} ', False),
]


@pytest.mark.parametrize(("whitespace", "text", "fits"), SPACES)
def test_white_space_between_tokens(whitespace: int | None, text: str, fits: bool) -> None:
    assert accepts(machine_of(_PERSON, JsonOptions(whitespace=whitespace)), text) is fits


ARRAY_SPACES = [
    (0, "[1,2]", True),
    (0, "[ ]", False),
    (1, "[ 1 , 2 ]", True),
    (1, "[ ]", True),
    (1, "[  ]", False),
    (3, "[   1,\n\n\n2]", True),
    (3, "[1    ]", False),
    (None, "[" + " " * 500 + "]", True),
]


@pytest.mark.parametrize(("whitespace", "text", "fits"), ARRAY_SPACES)
def test_white_space_in_arrays(whitespace: int | None, text: str, fits: bool) -> None:
    assert accepts(machine_of(_LIST, JsonOptions(whitespace=whitespace)), text) is fits


def test_white_space_does_not_part_the_letters_of_scalars() -> None:
    machine = machine_of({"enum": [True, 12, "a b"]}, JsonOptions(whitespace=None))
    assert accepts(machine, '"a b"')
    assert not any(accepts(machine, text) for text in ("t rue", "1 2", '"a  b"', ' "a b"'))


def test_free_white_space_is_a_bound_of_thirty_two() -> None:
    machine = machine_of(_LIST, JsonOptions(whitespace="free"))
    assert accepts(machine, f"[{' ' * 32}1]")
    assert not accepts(machine, f"[{' ' * 33}1]")


def test_strings_are_counted_apart_from_white_space() -> None:
    schema = {"type": "array", "items": {"type": "string", "maxLength": 2}}
    machine = machine_of(schema, JsonOptions(whitespace=2))
    assert accepts(machine, '[  "ab"  ,  "  "  ]')
    assert not accepts(machine, '[  "abc"]')
    assert not accepts(machine, '[   "ab"]')


_ORDER: list[Row] = [
    # Named members come in the order of the schema, others after them.
    (_PERSON, '{"name":"a"} {"name":"a","age":1} {"name":"","age":1,"x":2,"y":3}',
     '{"age":1,"name":"a"} {"x":1,"name":"a"} {"age":1} {"name":"a","x":1,"age":2}'),
    ({"type": "object", "properties": {"b": {}, "a": {}, "c": {}}, "additionalProperties": False},
     '{} {"b":1,"c":2} {"b":1,"a":2,"c":3} {"a":1}', '{"a":1,"b":2} {"c":1,"a":2} {"b":1,"b":1}'),
    # Names that are only required come after those with a schema, in the order of the list.
    ({"type": "object", "required": ["z", "a"], "properties": {"m": {}}},
     '{"m":1,"z":2,"a":3} {"z":2,"a":3,"x":1}', '{"z":1,"m":1,"a":1} {"a":1,"z":1} {"z":1}'),
    # Additional names in any order among themselves.
    ({"type": "object", "properties": {"a": {}}, "patternProperties": {"^x": {}},
      "additionalProperties": False}, '{"a":1,"x2":1,"x1":1} {"x1":1,"x2":1}', '{"x":1,"a":1}'),
    ({"const": {"b": 1, "a": 2}}, '{"b":1,"a":2}', '{"a":2,"b":1}'),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"b": ["a"]}},
     '{} {"a":1} {"a":1,"b":2}', '{"b":1} {"b":2,"a":1}'),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 2,
      "additionalProperties": False}, '{"a":1,"b":2}', '{"b":1} {"b":1,"a":2} {"a":1}'),
    ({"type": "object", "properties": {"a": {"properties": {"y": {}, "x": {}}, "type": "object"}}},
     '{"a":{"y":1,"x":2}}', '{"a":{"x":1,"y":2}}'),
    # Alternatives share one order: that of the first occurrence of each name.
    ({"anyOf": [{"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
                {"type": "object", "properties": {"c": {}, "a": {}}, "required": ["c"]}]},
     '{"a":1,"b":2} {"a":1,"c":2} {"b":1,"c":2}', '{"c":1,"a":2} {"b":2,"a":1} {"b":1}'),
    # Wherever it stands, what is left over is last to say what comes before what.
    ({"type": "object", "unevaluatedProperties": False, "properties": {"a": {}},
      "allOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]},
     '{"a":1,"b":2,"c":3}', '{"a":1,"c":3,"b":2} {"b":2,"a":1}'),
]  # fmt: skip


@pytest.mark.parametrize("row", _ORDER, ids=repr)
def test_members_come_in_the_order_of_the_schema(row: Row) -> None:
    assert_row(row, JsonOptions(key_order=KeyOrder.SCHEMA))


def test_a_name_is_not_offered_where_one_that_is_required_would_be_passed() -> None:
    machine = machine_of({**_PERSON, "required": ["name", "age"]})
    assert machine.only_byte(reached(machine, '{"')) == ord("n")
    behind = reached(machine, '{"name":"a"')
    assert machine.only_byte(behind) == ord(",")
    assert machine.only_byte(reached(machine, '{"name":"a","')) == ord("a")
