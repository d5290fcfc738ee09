"""Limits that answers are likely to hit, reported before the first token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.cli.check import check
from guided.constraint.likely_limits import _LimitSearch, likely_limits
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import lower_json_schema
from guided.machine.parts import RecognizerLimits
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import PauseHooks, spend, use_pause_hooks
from guided.spec import JsonSchema

_DOMAIN = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"
"""As in published schemas; there are too many ways to divide a name at its dots."""


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    networks = {"type": "object", "additionalProperties": {"type": "array", "items": value}}
    return {"type": "object", "properties": {"title": {}, "networks": networks}}


def test_a_pattern_that_takes_too_long_is_told_with_its_place() -> None:
    schema = _schema({"type": "object", "properties": {"fqdn": {"pattern": _DOMAIN}}})
    machine = JsonMachine(lower_json_schema(JsonSchema(json.dumps(schema))).grammar)
    (likely,) = likely_limits(machine, ConstraintLimits(step_work=100_000))
    assert likely.place == "/networks/*"
    assert "more than 100000 units of work; simplify the patterns" in likely.message


def test_looking_ahead_rests_between_its_steps() -> None:
    """Each step is small; other requests are served between the steps, not after all of them."""
    members = {f"member {n}": {"type": "integer", "minimum": n} for n in range(150)}
    lowered = lower_json_schema(JsonSchema(json.dumps({"properties": members})))
    machine = JsonMachine(lowered.grammar)
    rests: list[int] = []
    with use_pause_hooks(PauseHooks(5_000, rests.append, lambda _: None, lambda: None)):
        assert likely_limits(machine, ConstraintLimits()) == ()
    assert len(rests) > 15


def test_a_step_that_spends_very_much_at_once_is_told_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it spends past its own limit does not count, or all steps together would hit theirs."""
    monkeypatch.setattr(_LimitSearch, "_next_stacks", lambda *_: spend(10**9))
    machine = JsonMachine(lower_json_schema(JsonSchema("{}")).grammar)
    (likely,) = likely_limits(machine, ConstraintLimits())
    assert "more than 2000000 units of work" in likely.message


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}},
        _schema({"enum": [f"name {i}" for i in range(500)]}),
        _schema({"oneOf": [{"required": [f"name{i}"]} for i in range(20)]}),
        {"type": "array", "uniqueItems": True, "items": {"pattern": "^a+$"}},
    ],
)
def test_schemas_within_the_limits_are_told_nothing(schema: dict[str, Any]) -> None:
    assert guided.check(schema).likely_limits == ()


def test_a_lack_of_room_is_told() -> None:
    members = {f"name{i}": {"pattern": f"^[a-z]{{{i}}}x"} for i in range(20)}
    constraint = JsonSchema(json.dumps({"type": "object", "properties": members}))
    room = RecognizerLimits(max_cells=2_000)
    machine = JsonMachine(lower_json_schema(constraint).grammar, limits=room)
    found = likely_limits(machine, ConstraintLimits(recognizer=room))
    assert found
    assert all("cells" in likely.message for likely in found)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(_schema({"pattern": _DOMAIN, "type": "string"})))
    check(str(file))
    shown = capsys.readouterr().out
    assert "likely to hit" in shown
    assert "/networks/*" in shown
    assert "more than 2000000 units of work" in " ".join(shown.split())
