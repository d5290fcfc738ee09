"""Schemas whose references lead to much are closed in time that their own length bounds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guided.spec.closed_objects import close_objects
from guided.spec.discriminators import Discriminators

_SECONDS = 5
"""Seconds of processor time; each takes less than one, and took from ten to a hundred."""
_MANY = 6_000


def _object(count: int, **keywords: Any) -> dict[str, Any]:
    members = {f"a{number}": {"const": number} for number in range(count)}
    return {"type": "object", "properties": members, **keywords}


def _union(branch: dict[str, Any], count: int = _MANY) -> dict[str, Any]:
    branches = [{**branch} for _ in range(count)]
    return {"$defs": {"w": _object(count), "v": _object(count)}, "oneOf": branches}


_TO_W, _TO_V = {"$ref": "#/$defs/w"}, {"$ref": "#/$defs/v"}
_LISTED = {"enum": [f"{number}" for number in range(_MANY)]}
_SCHEMAS: dict[str, Any] = {
    "one object is each branch": _union(_TO_W),
    "one object is each branch and a member required": _union({**_TO_W, "required": ["a1"]}),
    "one object is the only part of each branch": _union({"anyOf": [_TO_W]}),
    "two objects are the parts of each branch": _union({"anyOf": [_TO_W, _TO_V]}),
    "one object is the first branch of many unions": {
        "$defs": {"w": _object(_MANY)},
        "properties": {f"p{n}": {"oneOf": [_TO_W, {"type": "object"}]} for n in range(_MANY)},
    },
    "a long list is what each member may be": {
        "$defs": {"l": _LISTED},
        "oneOf": [
            {
                "type": "object",
                "properties": {f"a{n}": {"$ref": "#/$defs/l"} for n in range(_MANY)},
            }
        ],
    },
    "a list is referred to as a schema": {
        "$defs": {"l": [0] * 40_000},
        "not": {"anyOf": [{"$ref": "#/$defs/l"} for _ in range(_MANY)]},
    },
    "others are required than are listed": {
        "oneOf": [_object(30_000, required=[f"b{number}" for number in range(30_000)])]
    },
}


@pytest.mark.parametrize("schema", _SCHEMAS.values(), ids=_SCHEMAS)
def test_what_is_referred_to_often_is_read_once(schema: Any) -> None:
    began = time.process_time()
    assert close_objects(schema).keys() >= schema.keys()
    assert time.process_time() - began < _SECONDS


def test_members_that_are_referred_to_often_are_not_stored_often() -> None:
    schema = _union({"anyOf": [_TO_W, _TO_V]}, 1_500)
    found = Discriminators(schema)
    assert not found.of(schema["oneOf"])
    assert sum(map(len, found._members_by_id.values())) < 300_000


def test_unions_of_many_branches_are_told_apart_within_the_bound() -> None:
    branches = [
        _object(50, required=["kind"]) | {"properties": {"kind": {"const": number}}}
        for number in range(1_000)
    ]
    closed = close_objects({"oneOf": branches})
    assert all(branch["additionalProperties"] is False for branch in closed["oneOf"])
