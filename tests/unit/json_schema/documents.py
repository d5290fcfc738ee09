"""Machines for schemas, and texts that go through them byte by byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import lower_json_schema
from guided.machine.recognizer import State
from guided.spec import JsonOptions, JsonSchema

__all__ = ["Row", "Schema", "accepts", "assert_row", "machine_of", "reached"]

Schema: TypeAlias = Mapping[str, Any] | bool
Row: TypeAlias = tuple[Schema, str, str]
"""A schema, the texts that it accepts and those that it rejects, parted by single spaces."""


def machine_of(
    schema: Schema, options: JsonOptions | None = None, missing: frozenset[int] = frozenset()
) -> JsonMachine:
    """The recogniser of a schema."""
    constraint = JsonSchema(json.dumps(schema), options or JsonOptions())
    return JsonMachine(lower_json_schema(constraint).grammar, constraint.options, missing)


def reached(machine: JsonMachine, text: str) -> State:
    """The state after a text that may come first."""
    state = machine.advance(machine.start, text.encode())
    assert state is not None, f"{text!r} may not stand at the start"
    return state


def accepts(machine: JsonMachine, text: str) -> bool:
    """Whether a text is a document; from every state on the way there has to be an end."""
    state: State | None = machine.start
    for at, byte in enumerate(text.encode()):
        assert state is not None
        _assert_alive(machine, state)
        only = machine.only_byte(state)
        state = machine.step(state, byte)
        if state is None:
            return False
        assert only in (None, byte), (text[:at], only)
    assert state is not None
    _assert_alive(machine, state)
    return machine.is_accepting(state)


def _assert_alive(machine: JsonMachine, state: State) -> None:
    end = machine.shortest_completion(state)
    assert len(end) <= machine.bytes_left(state), (state, end)
    behind = machine.advance(state, end)
    assert behind is not None, (state, end)
    assert machine.is_accepting(behind), (state, end)


def assert_row(row: Row, options: JsonOptions | None = None) -> None:
    """Check the machine of a schema on texts that it accepts and texts that it rejects."""
    schema, accepted, rejected = row
    machine = machine_of(schema, options)
    for text in accepted.split(" "):
        assert accepts(machine, text), f"{text} is rejected"
    for text in rejected.split(" "):
        assert not accepts(machine, text), f"{text} is accepted"
    machine.check()
