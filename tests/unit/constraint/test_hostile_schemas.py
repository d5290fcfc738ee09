"""Schemas with many demands at once are answered quickly, or refused at little cost."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.constraint.check import check
from guided.constraint.machine import machine_of
from guided.errors import LimitExceededError
from guided.spec import JsonSchema
from tests.kit.tiny_vocabulary import tiny_vocabulary

_SECONDS = 20
"""Seconds of processor time; the slowest takes three on an idle machine, and the guarded faults
take minutes."""


def _refs(count: int) -> list[dict[str, str]]:
    return [{"$ref": f"#/$defs/{number}"} for number in range(count)]


def _each(count: int, schema: Any) -> dict[str, Any]:
    return {str(number): schema(number) for number in range(count)}


def _array(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", **keywords}


def _shared(levels: int) -> dict[str, Any]:
    """Two alternatives at each level, both of which refer to both at the level below."""
    found: dict[str, Any] = {"a0": {"minLength": 1}, "b0": {"maxLength": 3}}
    for level in range(1, levels + 1):
        a, b = ({"$ref": f"#/$defs/{name}{level - 1}"} for name in "ab")
        found[f"a{level}"] = {"oneOf": [a, b]}
        found[f"b{level}"] = {"anyOf": [a, {"not": b}]}
    return {"type": "string", "$defs": found, "$ref": f"#/$defs/a{levels}"}


def _tree(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"0": {"type": "integer"}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/$defs/{level - 1}"}
        sides = {"left": below, "right": below}
        found[str(level)] = {"type": "object", "properties": sides, "required": ["left", "right"]}
    return {"$defs": found, "$ref": f"#/$defs/{levels}"}


_NAMES = [f"n{number}" for number in range(3_000)]

ANSWERED: dict[str, Any] = {
    "many members are owed": {"type": "object", "minProperties": 300},
    "many names are owed": {"type": "object", "required": _NAMES},
    "many properties are owed": {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in _NAMES},
        "required": _NAMES,
    },
    "many items are owed": _array(minItems=3_000),
    "many items are owed that differ": _array(
        items={"type": "integer"}, uniqueItems=True, minItems=150
    ),
    "all of many items are owed that differ": _array(
        items={"enum": list(range(120))}, uniqueItems=True, minItems=120
    ),
    "many items are owed that are contained": _array(contains={"type": "integer"}, minContains=200),
    "objects are listed": {"enum": [{"a": n, "b": str(n)} for n in range(100)]},
    "values are listed one by one": {
        "$defs": _each(2_000, lambda n: {"const": n}),
        "anyOf": _refs(2_000),
    },
    "values are ruled out one by one": {
        "$defs": _each(2_000, lambda n: {"const": n}),
        "not": {"anyOf": _refs(2_000)},
    },
    "alternatives are shared": _shared(20),
    "a tree is owed": _tree(10),
    "a long text fits a pattern": {"type": "string", "pattern": "^(ab|cd|e)+$", "minLength": 9_000},
}


@pytest.mark.parametrize("schema", ANSWERED.values(), ids=ANSWERED)
def test_what_is_much_but_simple_is_answered(schema: Any) -> None:
    began = time.process_time()
    assert json.loads(check(schema).shortest_answer) is not None
    assert time.process_time() - began < _SECONDS


def test_classes_without_a_name_left_are_not_visited_again_for_each_member() -> None:
    schema = {
        "type": "object",
        "patternProperties": {f"^n{number}$": {"type": "null"} for number in range(300)},
        "additionalProperties": False,
        "minProperties": 290,
    }
    machine = machine_of(JsonSchema(json.dumps(schema)))
    began = time.process_time()
    completion = machine.shortest_completion(machine.start)
    assert time.process_time() - began < _SECONDS
    assert len(json.loads(completion)) == 290


REFUSED: dict[str, Any] = {
    "objects are listed": {"enum": [{"a": n, "b": str(n)} for n in range(3_000)]},
    "objects are owed that differ": _array(
        items={"type": "object"}, uniqueItems=True, minItems=300
    ),
    "objects are alternatives": {
        "$defs": _each(3_000, lambda n: {"properties": {"x": {"const": n}}, "required": ["x"]}),
        "type": "object",
        "anyOf": _refs(3_000),
    },
    "objects must not be what they may be": {
        "$defs": _each(3_000, lambda n: {"properties": {"x": {"const": n}}}),
        "type": "object",
        "allOf": [{"not": ref} for ref in _refs(3_000)],
    },
    # These test the memory: each place has its pointer, its URI, its anchors.
    "many places are in one with a long name": {
        "properties": {"x" * 200_000: {"properties": _each(2_000, lambda n: {"minimum": n})}}
    },
    "many schemas have a long URI": {
        "$id": f"http://a/{'x' * 200_000}/",
        "$defs": _each(2_000, lambda n: {"$id": f"{n}"}),
    },
    "many schemas with URIs are in one with many anchors": {
        "$defs": _each(2_000, lambda n: {"$dynamicAnchor": f"a{n}"}),
        "properties": _each(2_000, lambda n: {"$id": f"p{n}", "$dynamicAnchor": f"p{n}"}),
    },
}


@pytest.mark.parametrize("schema", REFUSED.values(), ids=REFUSED)
def test_what_takes_too_much_work_is_refused_soon(schema: Any) -> None:
    began = time.process_time()
    with pytest.raises(LimitExceededError, match="compiling takes more than"):
        check(schema)
    assert time.process_time() - began < _SECONDS


def test_a_limit_says_what_took_the_work() -> None:
    """A limit reached after a position is not about compiling, and the end is still known."""
    schema = JsonSchema(json.dumps(_array(items={"enum": [[n] for n in range(30)]}, minItems=2)))
    vocabulary = tiny_vocabulary()
    matcher = ConstraintCompiler(vocabulary, ConstraintLimits(step_work=20)).compile(schema).start()
    assert matcher.can_complete_within(1_000)
    with pytest.raises(LimitExceededError, match="going on from one position") as met:  # noqa: PT012 - at some byte
        for byte in b"[[17],[25],[4]]":
            behind = matcher.advance(vocabulary.byte_ids[byte])
            assert behind.can_complete_within(1_000)
            matcher = behind
    assert met.value.limit == 20
    assert matcher.shortest_completion()
    with pytest.raises(LimitExceededError, match="compiling takes more than 20 "):
        ConstraintCompiler(vocabulary, ConstraintLimits(compile_work=20)).compile(schema)


def test_items_that_nest_without_end_and_have_to_differ_are_a_limit() -> None:
    lists = {"type": "array", "items": {"$ref": "#/$defs/a"}}
    schema = {"$defs": {"a": lists}, "uniqueItems": True, **lists}
    machine = machine_of(JsonSchema(json.dumps(schema)))
    assert machine.advance(machine.start, b"[" * 200 + b"]" * 200) is not None
    with pytest.raises(LimitExceededError, match="has to differ from others nests too deeply"):
        machine.advance(machine.start, b"[" * 3_000 + b"]" * 3_000)
