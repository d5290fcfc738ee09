"""The tables of the official JSON Schema suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from benchmarks.peers.suite_outcomes import JudgedGroup, Outcome
from benchmarks.peers.tables import heading, percent, row

__all__ = ["report"]

_COLUMNS: Final = (
    "groups",
    "compiled %",
    "refused",
    "timeout",
    "crash",
    "tests",
    "right % of all",
    "right % of compiled",
    "false accept",
    "false reject",
    "tests refused",
    "failed",
)


def report(tested: Sequence[JudgedGroup]) -> Iterator[str]:
    """Yield a row for each part of each draft."""
    yield heading("part", _COLUMNS)
    for part, rows in groupby(tested, lambda each: f"{each.group.draft} {each.group.part}"):
        yield row(part, _cells([*rows]))


def _cells(tested: Sequence[JudgedGroup]) -> Iterator[object]:
    status = Counter(each.status for each in tested)
    outcome: Counter[Outcome] = Counter(one for each in tested for one in each.outcomes)
    tests = outcome.total() - outcome["skipped"]
    yield len(tested)
    yield percent(status["compiled"], len(tested))
    yield from (status["refused"], status["timeout"], status["crash"], tests)
    yield percent(outcome["right"], tests)
    yield percent(outcome["right"], tests - outcome["refused"])
    yield from (outcome["false accept"], outcome["false reject"])
    yield from (outcome["refused"], outcome["failed"])
