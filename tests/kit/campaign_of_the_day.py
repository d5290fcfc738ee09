"""A short campaign of a subject, with a seed of the day; thirty times as long in the long form.

All subjects together take ten seconds. For longer campaigns, see ``make fuzz``.
"""

from __future__ import annotations

import datetime
from typing import Final

import pytest

from tests.kit.campaign import run_campaign
from tests.kit.effort import is_long
from tests.kit.fuzzers import SUBJECTS

__all__ = ["assert_nothing_is_found"]

_SECONDS: Final = 300.0 if is_long() else 10.0


def assert_nothing_is_found(name: str) -> None:
    """Findings are reported with seeds: ``python -m tests.kit.fuzzers NAME --case SEED:INDEX``."""
    seed = datetime.datetime.now(datetime.UTC).date().toordinal()
    subject = SUBJECTS[name]()
    if lacking := subject.lacks():
        pytest.skip(lacking)
    report = run_campaign(subject, seed, _SECONDS / len(SUBJECTS))
    told = "\n\n".join(
        f"{name} {finding.seed}: {finding.fault}\n{finding.case}" for finding in report.findings
    )
    assert not report.findings, told
    assert report.tries
