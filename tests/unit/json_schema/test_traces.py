"""The course of a walk through a document: forced bytes, roles, counts and kept texts."""

from __future__ import annotations

import numpy as np
import pytest

from guided.json_schema.machine.json_machine import JsonMachine
from guided.machine.stack_transitions import KEY, TARGET, transition_key
from guided.machine.table import IN_KEY, IN_RARE_KEY, PLAIN
from guided.spec import JsonOptions
from tests.unit.json_schema.documents import Schema, machine_of, reached

FORCED: list[tuple[Schema, str, str]] = [
    # A schema, a text, and under each of its bytes a mark: ! forced, . chosen.
    ({"const": "ab"}, '"ab"', "!!!!"),
    ({"type": "boolean"}, "true", ".!!!"),
    ({"enum": ["abc", "abd"]}, '"abd"', "!!!.!"),
    ({"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "null"}},
      "required": ["a", "b"], "additionalProperties": False}, '{"a":1,"b":null}', "!" * 16),
    ({"type": "object", "properties": {"ab": {"type": "null"}, "ac": {"type": "null"}},
      "additionalProperties": False}, '{"ac":null}', "!.!.!!!!!!!"),
    ({"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3}, "[1,1]", "!!!!."),
    ({"type": "array", "items": {"const": "x"}, "minItems": 1, "maxItems": 1}, '["x"]', "!!!!!"),
    ({"type": "integer", "minimum": 10, "maximum": 11}, "11", "!."),
    ({"type": "string", "pattern": "^ab?$"}, '"a"', "!!."),
    ({"type": "object", "oneOf": [{"properties": {"k": {"const": "a"}}}], "required": ["k"],
      "maxProperties": 1}, '{"k":"a"}', "!!!!!!!!!"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text", "marks"), FORCED, ids=repr)
def test_where_one_byte_only_may_follow(schema: Schema, text: str, marks: str) -> None:
    """``only_byte`` never claims too much; here it also misses nothing."""
    machine = machine_of(schema)
    found = ""
    for at in range(len(text)):
        state = reached(machine, text[:at])
        allowed = [byte for byte in range(256) if machine.step(state, byte) is not None]
        only = machine.only_byte(state)
        assert only is None or allowed == [only]
        found += "!" if len(allowed) == 1 and not machine.is_accepting(state) else "."
        assert only is not None or len(allowed) > 1 or machine.is_accepting(state)
    assert found == marks


def _roles(machine: JsonMachine, text: str) -> list[int]:
    return [
        int(machine.table.role[reached(machine, text[:end]).row]) for end in range(len(text) + 1)
    ]


def test_a_free_name_is_remembered_while_it_is_written() -> None:
    machine = machine_of({"type": "object", "additionalProperties": {"type": "integer"}})
    assert _roles(machine, '{"ab":1') == [PLAIN, PLAIN, IN_KEY, IN_KEY, IN_KEY, PLAIN, PLAIN, PLAIN]
    assert reached(machine, '{"ab').texts == (b"ab",)
    behind = reached(machine, '{"ab":1,"xy":2')
    assert behind.texts == ()
    closed = reached(machine, '{"ab":1,"xy":2,"')
    assert machine.stacks.additional_names(closed.stack) == {b"ab", b"xy"}


def test_names_of_a_limited_number_are_rare() -> None:
    names: dict[str, object] = {"^(ab|ac)$": {}}
    schema = {"type": "object", "patternProperties": names, "additionalProperties": False}
    machine = machine_of(schema)
    assert _roles(machine, '{"a')[2:] == [IN_RARE_KEY, IN_RARE_KEY]
    behind = reached(machine, '{"ab":1,"a')
    assert [byte for byte in range(256) if machine.step(behind, byte)] == [ord("c")]
    assert machine.advance(machine.start, b'{"ab":1,"ac":2,') is None


def test_code_points_are_counted_beside_the_automaton() -> None:
    machine = machine_of({"type": "string", "maxLength": 100})
    texts = {'"': 0, '"a': 1, '"é': 1, '"😀': 1, '"a😀': 2, '"\\n': 1, '"a\\': 1, '"ab"': 0}
    for text, count in texts.items():
        assert reached(machine, text).count == count, text
    assert reached(machine, '"a').row == reached(machine, '"aa').row


def test_white_space_is_counted() -> None:
    machine = machine_of({"type": "array"}, JsonOptions(whitespace=3))
    assert [reached(machine, "[" + " " * n).count for n in range(4)] == [0, 1, 2, 3]
    assert machine.advance(machine.start, b"[    ") is None


def test_items_that_must_differ_are_remembered() -> None:
    machine = machine_of({"type": "array", "uniqueItems": True})
    assert reached(machine, "[").texts == (b"",)
    assert reached(machine, "[12").texts == (b"12",)
    assert reached(machine, '[1,["a').texts == (b'["a',)
    assert reached(machine, '[1,["a"]').texts == ()
    nested = machine_of(
        {"type": "array", "uniqueItems": True, "items": {"type": "array", "uniqueItems": True}}
    )
    assert reached(nested, "[[1,2").texts == (b"[1,2", b"2")


def test_equal_positions_are_equal_states() -> None:
    machine = machine_of({"type": "array", "items": {"type": "integer"}})
    assert reached(machine, "[1") == reached(machine, "[1,2,3")
    assert reached(machine, "[") != reached(machine, "[1,")
    nested = machine_of({"type": "object", "additionalProperties": {"type": "null"}})
    assert reached(nested, '{"a":null,"b":nu') == reached(nested, '{"a":null,"b":nu')
    assert reached(nested, '{"a":nu') != reached(nested, '{"b":nu')


def test_transitions_without_a_text_agree_with_steps() -> None:
    """Cached transitions, for walks over many tokens, equal those that ``step`` finds."""
    machine = machine_of({"type": "object", "properties": {"a": {"type": "integer"}}})
    behind = reached(machine, '{"a":1')
    label = int(machine.table.label[behind.row])
    machine.parts.transitions.put(behind.stack, label, *machine.transition(behind.stack, label))
    assert len(machine.parts.transitions) == 1
    resolved = machine.exits.resolve(behind.stack, label)
    assert resolved is not None
    slots = machine.parts.transitions.slots
    slot = int(np.nonzero(slots[:, KEY] == transition_key(behind.stack, label))[0][0])
    assert tuple(slots[slot, TARGET:].tolist()) == resolved
    after = machine.step(behind, ord(","))
    assert after is not None
    assert after.stack == resolved[0]
    assert after.row == machine.table.step(resolved[1], ord(","))
    machine.check()
