"""What a verdict on a test of the official suite means, and how outcomes are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.peers.judging import Judged, Verdict
from benchmarks.peers.suite_outcomes import JudgedGroup, Outcome, job_of, outcome_of, read_groups
from benchmarks.peers.suite_report import report
from tests.conformance.suite import DIALECTS, Case, Group, Part

GROUP = Group(
    "draft7",
    Part.REQUIRED,
    "type",
    "a number",
    {"type": "number"},
    (Case("one", 1, True), Case("text", "1", False), Case("half", 0.5, True)),
)


@pytest.mark.parametrize(
    ("verdict", "valid", "outcome"),
    [
        ("accepted", True, "right"),
        ("accepted", False, "false accept"),
        ("rejected", True, "false reject"),
        ("rejected", False, "right"),
        ("error", True, "failed"),
        ("error", False, "failed"),
        ("skipped", True, "skipped"),
        (None, False, "failed"),
    ],
)
def test_a_verdict_is_right_where_the_suite_says_the_same(
    verdict: Verdict | None, valid: bool, outcome: Outcome
) -> None:
    assert outcome_of(verdict, valid) == outcome


@pytest.mark.parametrize(
    ("judged", "status", "outcomes"),
    [
        (Judged(verdicts=["accepted"] * 3), "compiled", ("right", "false accept", "right")),
        (
            Judged("validation_error", verdicts=["rejected"] * 3),
            "compiled",
            ("false reject", "right", "false reject"),
        ),
        (Judged("compile_error", "no"), "refused", ("refused",) * 3),
        (Judged("timeout", verdicts=["accepted"]), "timeout", ("right", "failed", "failed")),
        (Judged("crash"), "crash", ("failed",) * 3),
    ],
)
def test_a_refused_schema_is_not_wrong_and_one_broken_off_fails(
    judged: Judged, status: str, outcomes: tuple[Outcome, ...]
) -> None:
    tested = JudgedGroup.of(GROUP, judged)
    assert (tested.status, tested.outcomes) == (status, outcomes)


def test_shares_are_of_all_tests_and_of_those_whose_schema_compiled() -> None:
    tested = [
        JudgedGroup(GROUP, "compiled", ("right", "false accept", "right")),
        JudgedGroup(GROUP, "refused", ("refused",) * 3),
        JudgedGroup(GROUP, "compiled", ("skipped", "false reject", "failed")),
    ]
    (*_, line) = report(tested)
    assert line == ("| draft7 required | 3 | 66.7 | 1 | 0 | 0 | 8 | 25.0 | 40.0 | 1 | 1 | 3 | 1 |")


def test_a_schema_is_given_with_the_name_of_its_draft() -> None:
    schema = {"$schema": DIALECTS["draft7"], "type": "number"}
    assert job_of(GROUP, 10.0).schema == schema


def test_a_checkout_is_read_as_the_copy_that_tests_have(tmp_path: Path) -> None:
    folder = tmp_path / "tests/draft7/optional/format"
    folder.mkdir(parents=True)
    tests = [
        {"description": case.description, "data": case.document, "valid": case.valid}
        for case in GROUP.cases
    ]
    written = [{"description": "a number", "schema": {"type": "number"}, "tests": tests}]
    (folder.parent.parent / "type.json").write_text(json.dumps(written))
    assert [*read_groups(tmp_path, Part.REQUIRED, "draft7")] == [GROUP]
    assert [*read_groups(tmp_path, Part.FORMAT, "draft7")] == []
    assert len([*read_groups(None, Part.REQUIRED, "draft7")]) > 100
