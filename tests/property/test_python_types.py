"""Answers of random Python types are refused only by validators that ``check`` lists."""

from __future__ import annotations

from tests.kit.campaign import run_campaign
from tests.kit.effort import first_seed, is_long, times
from tests.kit.fuzz_types import TypesSubject

_TYPES = 30


def test_every_text_of_the_masks_is_accepted_or_its_validator_is_listed() -> None:
    """In the long form over more than 300 types, with 25 texts in either spelling."""
    subject = TypesSubject()
    report = run_campaign(subject, first_seed(), seconds=3600, most=times(_TYPES))
    told = "\n\n".join(f"{one.seed}: {one.fault}\n{one.case}" for one in report.findings)
    assert not report.findings, told
    assert subject.taken >= (300 if is_long() else _TYPES // 3)
