"""What ``unevaluated…`` looks at again for each condition, and for each case, is paid for."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from guided.errors import LimitExceededError
from guided.json_schema.reader import lower_json_schema
from guided.runtime.work_budget import limited_work
from guided.spec import JsonSchema

_UNITS = 200_000
"""More than all else in these schemas takes."""


def _alternatives(count: int, part: Any) -> dict[str, Any]:
    branches = [{"$ref": "#/$defs/part"}] * count
    return {"unevaluatedProperties": False, "$defs": {"part": part}, "anyOf": branches}


def _cases(keyword: str, matching: Any, **named: Any) -> dict[str, Any]:
    branches = [{"required": [f"z{n}"], **matching(n)} for n in range(9)]
    return {keyword: False, "anyOf": branches, **named}


_SCHEMAS: dict[str, Any] = {
    "allOf": _alternatives(1_000, {"allOf": [True] * 4_000}),
    "anyOf": _alternatives(1_000, {"anyOf": [True] * 4_000}),
    "dependencies": _alternatives(1_000, {"dependencies": {f"a{n}": ["a"] for n in range(4_000)}}),
    "members in cases": _cases(
        "unevaluatedProperties",
        lambda number: {"patternProperties": {f"^{number}": {}}},
        properties={f"a{number}": True for number in range(1_500)},
    ),
    "items in cases": _cases(
        "unevaluatedItems",
        lambda number: {"contains": {"const": number}},
        prefixItems=[True] * 1_500,
    ),
}


def _lower(schema: Any) -> None:
    lowered = lower_json_schema(JsonSchema(json.dumps(schema)))
    assert lowered.grammar


@pytest.mark.parametrize("schema", _SCHEMAS.values(), ids=_SCHEMAS)
def test_what_is_looked_at_again_and_again_is_paid_for(schema: Any) -> None:
    with pytest.raises(LimitExceededError, match="units of work"), limited_work(_UNITS):
        _lower(schema)


def test_conditions_of_members_are_paid_for_before_they_are_stored() -> None:
    schema = _alternatives(1_000, {"properties": {f"a{n}": True for n in range(2_000)}})
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceededError, match="units of work"), limited_work(_UNITS):
            _lower(schema)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_cases_share_the_members_that_they_name() -> None:
    schema = _SCHEMAS["members in cases"]
    tracemalloc.start()
    try:
        _lower(schema)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
