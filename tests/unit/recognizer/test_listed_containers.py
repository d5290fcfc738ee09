"""Objects and arrays that a schema lists by value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.frontends.json_schema import lower_json_schema
from guided.recognizer.json_machine import JsonMachine
from guided.spec import JsonSchema


@pytest.mark.parametrize(
    ("schema", "begun", "rest"),
    [
        ({"enum": [{"a": [1]}, {"b": 1}]}, b'{"a":[1', b"]}"),
        ({"enum": [{"c": [{}]}, {}]}, b'{"c":[{}', b"]}"),
    ],
)
def test_a_listed_array_ends_where_its_value_does(schema: Any, begun: bytes, rest: bytes) -> None:
    wanted = JsonSchema(json.dumps(schema))
    machine = JsonMachine(lower_json_schema(wanted).grammar, wanted.options)
    state = machine.advance(machine.start, begun)
    assert state is not None
    assert machine.step(state, ord(",")) is None
    assert machine.shortest_end(state) == rest
