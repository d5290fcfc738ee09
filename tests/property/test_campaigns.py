"""Half a minute of all fuzzers together, with a seed of the day; three times that in the long form.

For longer, see ``make fuzz``.
"""

from __future__ import annotations

import datetime

import pytest

from tests.kit.campaign import run_campaign
from tests.kit.effort import is_long
from tests.kit.fuzzers import SUBJECTS

_SECONDS = 90.0 if is_long() else 30.0


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_campaign_finds_nothing(name: str) -> None:
    """Findings are told with seeds: ``python -m tests.kit.fuzzers NAME --case SEED:INDEX``."""
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
