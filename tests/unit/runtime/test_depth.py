"""Schemas and documents nested as deeply as an attacker can write them.

Compiled code nests on the stack of the thread, and an overflow there ends the process: unbounded
nesting has to be counted, or avoided.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from guided.errors import LimitExceededError
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.json_schema.machine.json_machine import JsonMachine
from guided.runtime.work_budget import limited_work
from tests.unit.json_schema.documents import Schema, machine_of, reached

_Link = Callable[[Schema], dict[str, Any]]
_DEEP = 30_000
_LEVELS = 1_000
"""More than any real schema has."""

_CONTAINERS: dict[str, _Link] = {
    "required": lambda inner: {"required": ["a"], "properties": {"a": inner}, "type": "object"},
    "patterns": lambda inner: {
        "required": ["a"],
        "patternProperties": {"^a": inner},
        "type": "object",
    },
    "any member": lambda inner: {
        "minProperties": 1,
        "additionalProperties": inner,
        "type": "object",
    },
    "items": lambda inner: {"minItems": 1, "items": inner, "type": "array"},
    "contains": lambda inner: {"contains": inner, "type": "array"},
    "unevaluated": lambda inner: {"minItems": 1, "unevaluatedItems": inner, "type": "array"},
}
_OF_ONE_VALUE: dict[str, _Link] = {
    "not": lambda inner: {"not": inner},
    "not all": lambda inner: {"allOf": [{"not": inner}, {"not": {"const": 1}}]},
    "any": lambda inner: {"anyOf": [{"allOf": [inner, {"minimum": 3}]}, {"required": ["z"]}]},
    "all": lambda inner: {"allOf": [inner, {"minLength": 1}]},
    "if": lambda inner: {"if": inner, "then": {"const": 3}, "else": {"minimum": 1}},
}
_LINKS: dict[str, _Link] = {**_CONTAINERS, **_OF_ONE_VALUE}


def _chain(link: _Link, length: int) -> dict[str, Any]:
    """Return a schema with definitions, each of which refers to the next."""
    definitions: dict[str, Any] = {
        f"d{i}": link({"$ref": f"#/$defs/d{i + 1}"}) for i in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def _in_a_thread(function: Callable[[], JsonMachine]) -> JsonMachine:
    """Return or raise what ``function`` does, on the stack of a new thread."""
    outcome: list[JsonMachine | BaseException] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


@pytest.mark.parametrize("link", [*_CONTAINERS.values(), _OF_ONE_VALUE["if"]])
def test_a_schema_that_nests_too_deeply_is_refused(link: _Link) -> None:
    schema = _chain(link, 2 * _LEVELS)
    with pytest.raises(LimitExceededError, match="nests too deeply; put fewer"):
        _in_a_thread(lambda: machine_of(schema))


@pytest.mark.parametrize("link", _LINKS.values(), ids=_LINKS)
def test_a_schema_may_nest_as_deeply_as_any_real_one(link: _Link) -> None:
    """Interpreted as well as compiled, with no more nested calls than allowed."""
    assert sys.getrecursionlimit() <= 1_000
    assert _in_a_thread(lambda: machine_of(_chain(link, _LEVELS // 4))).start


def test_work_on_other_stacks_is_counted_and_its_errors_come_back() -> None:
    """A nearly spent work budget runs out far below, and work begun there is undone."""
    schema = _chain(_CONTAINERS["required"], _LEVELS // 4)
    with pytest.raises(LimitExceededError, match="more than 3000 units"), limited_work(3_000):
        machine_of(schema)


def test_formulas_of_one_value_refer_to_one_another_to_any_depth() -> None:
    for length in (2 * _LEVELS, 2 * _LEVELS + 1):
        machine = machine_of(_chain(_OF_ONE_VALUE["not"], length))
        assert (machine.advance(machine.start, b'"a"') is None) == bool(length % 2)


def test_documents_nest_to_any_depth() -> None:
    machine = machine_of({"type": "array", "items": {"$ref": "#"}})
    depth = 20 * _LEVELS
    state = reached(machine, "[" * depth)
    assert machine.shortest_completion(state) == b"]" * depth


def test_formulas_that_grow_level_by_level_are_refused() -> None:
    """Each member adds little to the one before, whose formula is known by then."""
    inner: Schema = {"minProperties": 1}
    definitions: dict[str, Any] = {"d30": inner}
    for number in range(30):
        nested: Schema = {"$ref": f"#/$defs/d{number + 1}"}
        for _ in range(90):
            nested = {"anyOf": [nested, {"required": ["a"]}], "required": ["b"]}
        definitions[f"d{number}"] = nested
    members = {f"p{i}": {"$ref": f"#/$defs/d{i}"} for i in range(30, -1, -2)}
    schema = {"properties": members, "$defs": definitions, "type": "object"}
    with pytest.raises(LimitExceededError, match="nests too deeply"):
        _in_a_thread(lambda: _opened(machine_of(schema)))


def _opened(machine: JsonMachine) -> JsonMachine:
    for number in range(30, -1, -2):
        reached(machine, f'{{"p{number}":')
    return machine


def test_choices_on_every_level_are_refused() -> None:
    choices = [
        {"anyOf": [{"not": {"required": [f"z{i}"]}}, {"required": ["q"]}]} for i in range(80)
    ]
    schema = _chain(
        lambda inner: {**_CONTAINERS["required"](inner), "$ref": "#/$defs/choices"}, 300
    )
    schema["$defs"]["choices"] = {"allOf": choices}
    with pytest.raises(LimitExceededError, match="nests too deeply"):
        _in_a_thread(lambda: machine_of(schema))


def test_assertions_that_fail_on_every_level_nest_no_deeper() -> None:
    nots = [{"not": {"properties": {f"n{i:02}": {"type": "string"}}}} for i in range(20)]
    schema = _chain(lambda inner: {"properties": {"n19": inner}, "$ref": "#/$defs/all"}, 20)
    schema["$defs"]["all"] = {"allOf": nots, "type": "object"}
    schema["$defs"]["d20"] = {"type": "number"}
    machine = machine_of(schema)
    assert machine.shortest_completion(machine.start).count(b'"n19"') == 20


def test_long_texts_may_begin_alike() -> None:
    stem = "a" * _DEEP
    values = _in_a_thread(lambda: machine_of({"enum": ["x", stem + "b", stem + "c"]}))
    reached(values, f'"{stem}c"')
    members: dict[str, Any] = {stem + "b": {}, stem + "c": {}}
    schema = {"type": "object", "properties": members, "additionalProperties": False}
    reached(_in_a_thread(lambda: machine_of(schema)), f'{{"{stem}c"')


def test_rules_may_end_inside_of_one_another_to_any_depth() -> None:
    machine = _grammar('start: t\nt: "(" t [")" "!"] | "e"')
    state = machine.advance(machine.start, b"(" * _DEEP + b"e")
    assert state is not None
    assert machine.is_accepting(state)
    assert machine.step(state, ord("?")) is None


def test_readings_meet_again_at_any_depth() -> None:
    machine = _grammar('start: "c" t "x" | "c" "(" t "y"\nt: "((" t ")" | "e" | "(e"')
    for depth in (101, _DEEP + 1):
        state = machine.advance(machine.start, b"c" + b"(" * depth + b"e" + b")" * (depth // 2))
        assert state is not None
        assert [machine.step(state, ord(end)) is not None for end in "xy)"] == [True, True, False]


def _grammar(text: str) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_lark(text)))
