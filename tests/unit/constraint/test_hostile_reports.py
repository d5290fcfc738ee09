"""Reports on schemas with very long names, which the pointers of keywords inside them repeat."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from guided.constraint.report import MAX_REPORT_BYTES, check_structure
from guided.errors import LimitExceededError
from guided.json_schema.reader import lower_json_schema
from guided.spec import JsonSchema

_LONG = "k" * 40_000
_NOTES = {"type": "integer", "$defs": {_LONG: {f"x{number}": 0 for number in range(5_000)}}}
_MEMBERS = {"properties": {_LONG: {"properties": {str(n): {"type": "null"} for n in range(120)}}}}


@pytest.mark.parametrize("schema", [_NOTES, _MEMBERS], ids=["notes", "members"])
def test_what_is_left_out_of_a_report_is_not_made(schema: Any) -> None:
    constraint = JsonSchema(json.dumps(schema))
    count = len(list(lower_json_schema(constraint).verdicts))
    tracemalloc.start()
    try:
        report = check_structure(constraint, most_bytes=MAX_REPORT_BYTES).report
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(report.verdicts) + report.omitted_verdicts == count
    assert peak < 60_000_000


def test_a_whole_report_is_bounded_by_the_work_for_it() -> None:
    with pytest.raises(LimitExceededError, match="judging each keyword takes more than"):
        check_structure(JsonSchema(json.dumps(_NOTES)))
