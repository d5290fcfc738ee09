"""Transitions resolved before a text reaches them: the same that walks would have found."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from guided.constraint.machine import machine_of
from guided.errors import GuidedError
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.machine.look_ahead import look_ahead
from guided.json_schema.reader import lower_json_schema
from guided.machine.stack_transitions import EMPTY_SLOT, KEY, LABEL_BITS
from guided.spec import JsonOptions, JsonSchema
from tests.kit.hard_schemas import hard_schema

_NESTED = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "home": {"type": "object", "properties": {"street": {"type": "string"}}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def _machine(schema: Any) -> JsonMachine:
    lowered = lower_json_schema(JsonSchema(json.dumps(schema)))
    return JsonMachine(lowered.grammar, JsonOptions())


def _transitions(machine: JsonMachine) -> list[tuple[int, int, tuple[int, int]]]:
    """Stack and label of each transition, and its result in the table."""
    slots = machine.parts.transitions.slots[
        machine.parts.transitions.slots[:, KEY] != EMPTY_SLOT
    ].tolist()
    return [
        (key >> LABEL_BITS, key & ((1 << LABEL_BITS) - 1), (target, row))
        for key, target, row in slots
    ]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_found_ahead_is_what_a_walk_finds(seed: int) -> None:
    schema = _NESTED if seed == 0 else hard_schema(random.Random(seed))
    try:
        machine = _machine(schema)
    except GuidedError:
        return
    look_ahead(machine)
    found = _transitions(machine)
    assert len({each[:2] for each in found}) == len(found), "each is there once"
    for stack, label, behind in found:
        assert machine.transition(stack, label) == behind
    machine.table.check()


def test_the_first_members_are_found() -> None:
    machine = _machine(_NESTED)
    look_ahead(machine)
    names = [machine.exit_actions.action_of_key(name) for name in ("name", "tags")]
    assert {label for _, label, _ in _transitions(machine)} >= set(names)


def test_no_more_is_done_than_a_few_transitions_and_little_work() -> None:
    long = {"properties": {f"p{n}": {"type": "string"} for n in range(30)}, "type": "object"}
    machine = _machine(long)
    look_ahead(machine)
    assert 5 < len(machine.parts.transitions) < 15
    wide = {"properties": {f"p{n}": {"type": "string"} for n in range(500)}, "type": "object"}
    machine = _machine(wide)
    look_ahead(machine)
    assert len(machine.parts.transitions) < 15
    hard = {"properties": {"a": {"pattern": "(a|b)*a(a|b){12}$", "type": "string"}}}
    assert machine_of(JsonSchema(json.dumps(hard))).start is not None
