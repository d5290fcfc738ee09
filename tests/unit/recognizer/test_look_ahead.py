"""What is looked at ahead is what documents come to, and changes none of them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from guided.automata.fuel import limited_work
from guided.errors import LimitExceededError
from guided.recognizer.contexts import ROOT
from guided.recognizer.labels import OPEN_OBJECT
from guided.recognizer.look_ahead import look_ahead
from tests.unit.recognizer.documents import Schema, accepts, machine_of

_PERSON: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer", "minimum": 3},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "friend": {"$ref": "#/$defs/friend"},
        "where": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
    },
    "required": ["age"],
    "$defs": {
        "friend": {"properties": {"of": {"$ref": "#"}, "since": {"pattern": "^[0-9]{2}$"}}},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    },
}
_DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"name": "Ada", "age": 36},
    {"age": 2},
    {"age": 4, "tags": ["a", "b"], "friend": {"of": {"age": 7}, "since": "12"}, "where": {"x": 1}},
    {"age": 4, "friend": {"of": {"age": 1}}},
    {"age": 4, "friend": {"since": "1"}},
    {"age": 4, "where": {}, "free": 1},
    {"age": 4, "where": None, "free": 1},
    {"name": "too long", "age": 4},
    {"friend": {}},
)


def _verdicts(schema: Schema, work: int | None, joints: int) -> list[bool]:
    """Which documents are accepted by a machine that looked ahead, with so much work at most."""
    machine = machine_of(schema)
    if work is not None:
        with suppress(LimitExceededError), limited_work(work):
            look_ahead(machine, joints)
    texts = [json.dumps(document, separators=(",", ":")) for document in _DOCUMENTS]
    found = [accepts(machine, text) for text in texts]
    machine.check()
    return found


@pytest.mark.parametrize("joints", [0, 1, 3, 10, 100])
def test_documents_stay_the_same(joints: int) -> None:
    assert _verdicts(_PERSON, 10**6, joints) == _verdicts(_PERSON, None, 0)


def test_documents_stay_the_same_wherever_the_work_ends() -> None:
    expected = _verdicts(_PERSON, None, 0)
    assert sorted(set(expected)) == [False, True]
    for work in range(0, 400, 7):
        assert _verdicts(_PERSON, work, 100) == expected, work


def test_joints_are_known_afterwards() -> None:
    machine = machine_of(_PERSON)
    look_ahead(machine, 4)
    assert len(machine.joints) == 4
    look_ahead(again := machine_of({"type": "object"}), 4)
    assert len(again.joints) == 1
    opened = machine.resolve(ROOT, OPEN_OBJECT)
    assert opened is not None
    assert machine.joint(ROOT, OPEN_OBJECT) == opened


def test_nothing_is_ahead_of_a_scalar() -> None:
    machine = machine_of({"type": "integer"})
    look_ahead(machine, 4)
    assert len(machine.joints) == 0
