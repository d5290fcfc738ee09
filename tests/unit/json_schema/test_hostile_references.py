"""References whose base is very long, or whose dynamic scope is large, take no long time."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from guided.errors import InvalidConstraintError, LimitExceededError
from guided.json_schema.reader import lower_json_schema
from guided.runtime.work_budget import limited_work
from guided.spec import JsonSchema

_SECONDS = 4
"""Seconds of processor time; it takes less than one, and took ten."""
_LONG = "http://x/" + "a/" * 30_000


def _lower(schema: Any) -> None:
    lowered = lower_json_schema(JsonSchema(json.dumps(schema)))
    assert lowered.grammar


def test_joining_a_reference_to_a_long_base_is_paid_for() -> None:
    references = [{"$ref": "b#/$defs/q"} for _ in range(60)]
    schema = {"$id": f"{_LONG}b", "$defs": {"q": {}}, "allOf": references}
    with pytest.raises(LimitExceededError, match="units of work"), limited_work(100_000):
        _lower(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": _LONG, "$ref": "b"},
        {"$id": _LONG, "$ref": "#b"},
        {"$ref": _LONG},
        {"$ref": f"#{_LONG}"},
        {"$ref": _LONG, "$defs": {"a": {"$id": _LONG}, "b": {"$id": _LONG}}},
    ],
)
def test_errors_show_the_beginning_of_a_long_uri(schema: Any) -> None:
    with pytest.raises(InvalidConstraintError) as met:
        _lower(schema)
    assert "http://x/a/a" in str(met.value)
    assert len(str(met.value)) < 500


def test_dynamic_references_share_what_their_scope_binds() -> None:
    anchors = {str(n): {"$dynamicAnchor": f"a{n}"} for n in range(9_000)}
    references = [{"$dynamicRef": f"#a{n}"} for n in range(9_000)]
    schema = {"$defs": anchors, "allOf": references, "unevaluatedItems": False}
    began = time.process_time()
    _lower(schema)
    assert time.process_time() - began < _SECONDS
