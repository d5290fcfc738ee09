"""The arithmetic of the figures that are printed."""

from __future__ import annotations

import pytest

from benchmarks.peers.comparison import comparison, paired
from benchmarks.peers.judging import Judged
from benchmarks.peers.mask_report import report, times_to_first_mask
from benchmarks.peers.tables import number, percent, spread

PASSED = Judged(
    verdicts=["accepted", "rejected"],
    mask_ns=[[1000, 2000, 3000], [4000]],
    accept_ns=[[500, 500], []],
    single=1,
    forced=1,
    forced_wrong=1,
    forced_tokens=4,
    ttfm_us=1500.0,
)
SLOWER = Judged(
    "invalidation_error",
    verdicts=["accepted", "accepted"],
    mask_ns=[[2000, 4000, 6000], [8000, 9000]],
    accept_ns=[[500, 1500], [1000]],
    invalid_accepted=1,
    eos_disagrees=2,
    ttfm_us=3000.0,
)
REFUSED = Judged("compile_error")
HUNG = Judged("timeout", "compiling (killed)")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(text: str, title: str) -> list[list[str]]:
    """The rows of the table below a title."""
    lines = text[text.index(title) :].splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| ---")) + 1
    last = next((n for n in range(first, len(lines)) if not lines[n].startswith("|")), len(lines))
    return [cells(line) for line in lines[first:last]]


TEXT = "\n".join(report({"a": {"x": PASSED, "y": REFUSED}, "b": {"x": SLOWER, "y": HUNG}}, 20.0))


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        (
            "| engine | schemas",
            [
                ["a", "2", "1", "1", "0", "0", "0", "0", "50.0", "0", "0", "0"],
                ["b", "2", "0", "0", "0", "1", "1", "0", "0.0", "1", "0", "2"],
            ],
        ),
        (
            "TBM (mask), us",
            [
                ["a", "2.5", "3.2", "3.7", "4.0", "4.0", "2.5", "4.0", "4"],
                ["b", "6.0", "8.0", "8.6", "9.0", "9.0", "5.8", "9.0", "5"],
            ],
        ),
        (
            "token (mask + accept), us",
            [
                ["a", "2.0", "2.2", "2.4", "2.5", "2.5", "2.0", "2.5", "2"],
                ["b", "5.5", "7.2", "8.3", "8.9", "9.0", "5.7", "9.0", "3"],
            ],
        ),
        (
            "Tokens that the engine forced",
            [["a", "4", "1", "25.0", "1", "2", "50.0"], ["b", "0", "0", "-", "0", "3", "0.0"]],
        ),
    ],
)
def test_a_table_has_a_row_for_each_engine(title: str, expected: list[list[str]]) -> None:
    assert rows(TEXT, title) == expected


def test_a_timeout_while_compiling_counts_as_the_limit_and_a_refusal_not_at_all() -> None:
    broken_off = Judged("timeout", "in the walk", ttfm_us=7.0)
    run = [PASSED, REFUSED, HUNG, broken_off]
    assert times_to_first_mask(run, 20.0) == [1500.0, 20e6, 7.0]


def test_times_are_compared_as_far_as_both_came() -> None:
    pairs = [*paired(PASSED, SLOWER, lambda judged: judged.mask_ns)]
    assert pairs == [(1000, 2000), (2000, 4000), (3000, 6000), (4000, 8000)]


def test_a_comparison_is_over_what_both_compiled() -> None:
    runs = {
        "a": {"x": PASSED, "y": REFUSED, "z": PASSED},
        "b": {"x": SLOWER, "y": PASSED, "z": HUNG},
    }
    text = "\n".join(comparison(runs))
    assert "a and b: 3 schemas, 1 compiled by both" in text
    assert rows(text, "| a (down)") == [
        ["pass", "0", "0", "1", "1"],
        ["compile_error", "1", "0", "0", "0"],
        ["invalidation_error", "0", "0", "0", "0"],
        ["timeout", "0", "0", "0", "0"],
    ]
    assert rows(text, "us over what both did")[:6] == [
        ["TTFM", "1", "median", "1,500", "3,000", "0.500"],
        ["TTFM", "1", "p99", "1,500", "3,000", "0.500"],
        ["TTFM", "1", "mean", "1,500", "3,000", "0.500"],
        ["TBM (mask)", "4", "median", "2.5", "5.0", "0.500"],
        ["TBM (mask)", "4", "p99", "4.0", "7.9", "0.500"],
        ["TBM (mask)", "4", "mean", "2.5", "5.0", "0.500"],
    ]


def test_nothing_has_no_figures() -> None:
    assert spread([]) == ["-"] * 7 + ["0"]
    assert percent(0, 0) == "-"


@pytest.mark.parametrize(("value", "text"), [(0.04, "0.0"), (99.94, "99.9"), (1234.5, "1,234")])
def test_a_time_has_no_more_digits_than_it_is_worth(value: float, text: str) -> None:
    assert number(value) == text
