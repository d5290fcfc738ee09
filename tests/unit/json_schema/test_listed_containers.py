"""Objects and arrays that a schema lists by value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import UnsatisfiableError
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import lower_json_schema
from guided.spec import JsonSchema
from tests.unit.json_schema.documents import accepts, machine_of


@pytest.mark.parametrize(
    ("schema", "prefix", "rest"),
    [
        ({"enum": [{"a": [1]}, {"b": 1}]}, b'{"a":[1', b"]}"),
        ({"enum": [{"c": [{}]}, {}]}, b'{"c":[{}', b"]}"),
    ],
)
def test_a_listed_array_ends_where_its_value_does(schema: Any, prefix: bytes, rest: bytes) -> None:
    wanted = JsonSchema(json.dumps(schema))
    machine = JsonMachine(lower_json_schema(wanted).grammar, wanted.options)
    state = machine.advance(machine.start, prefix)
    assert state is not None
    assert machine.step(state, ord(",")) is None
    assert machine.shortest_completion(state) == rest


def _few(names: str, **keywords: Any) -> Any:
    values = {name: {"enum": [1, 2]} for name in names}
    closed = {"type": "object", "properties": values, "additionalProperties": False}
    return {"uniqueItems": True, "type": "array", "items": closed, **keywords}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (_few("ab", minItems=7), '[{"b":1},{},{"a":1},{"a":2},{"a":2,"b":1},{"a":2,"b":2},'
         '{"b":2}]'),
        (_few("ab", minItems=4), '[{"b":2},{"b":1},{"a":2,"b":1},{"a":1,"b":1}]'),
        (_few("ba", minItems=4), '[{"a":2},{"a":1},{"b":2,"a":1},{"b":1,"a":1}]'),
        (_few("abc", minItems=9), '[{"c":2},{"b":1,"c":1},{"a":1,"c":2},{},{"b":2},{"c":1},'
         '{"a":2,"b":1,"c":2},{"a":1},{"a":2}]'),
    ],
)  # fmt: skip
def test_items_that_differ_keep_the_order_of_their_names(schema: Any, text: str) -> None:
    assert accepts(machine_of(schema), text)


def test_all_values_that_there_are_may_be_owed() -> None:
    values = '{},{"b":2},{"b":1},{"a":2},{"a":1},{"a":2,"b":1},{"a":2,"b":2}'
    every = "[" + values + ',{"a":1,"b":2},{"a":1,"b":1}]'
    assert accepts(machine_of(_few("ab", minItems=9)), every)
    with pytest.raises(UnsatisfiableError):
        machine_of(_few("ab", minItems=10))
