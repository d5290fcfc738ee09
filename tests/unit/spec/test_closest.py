"""Names that were probably meant are found within bounds."""

from __future__ import annotations

import pytest

from guided.runtime.closest import closest as counted_closest
from guided.spec.closest import MOST_NAMES, close_names, closest

NAMES = ("max_tokens", "min_tokens", "temperature", "top_k")


@pytest.mark.parametrize(
    ("name", "close", "few"),
    [
        ("max_token", "max_tokens", ["max_tokens", "min_tokens"]),
        ("top_k", "top_k", ["top_k"]),
        ("Temperatur", "temperature", ["temperature"]),
        ("zzz", None, []),
        ("", None, []),
    ],
)
def test_the_most_alike_names_come_first(name: str, close: str | None, few: list[str]) -> None:
    assert closest(name, NAMES) == counted_closest(name, NAMES) == close
    assert close_names(name, NAMES) == few
    assert close_names(name, NAMES, 1) == few[:1]


def test_a_likeness_may_be_asked_for() -> None:
    assert closest("min_tokens", ["max_tokens"]) == "max_tokens"
    assert closest("min_tokens", ["max_tokens"], 0.85) is None


def test_long_names_and_late_ones_are_like_none() -> None:
    long = "a" * 65
    assert closest(long, [long]) is None
    assert closest("a" * 64, [long, "a" * 63]) == "a" * 63
    many = [f"{number:04}" for number in range(MOST_NAMES)]
    for find in (closest, counted_closest):
        assert find("abcd", [*many[1:], "abcd"]) == "abcd"
        assert find("abcd", [*many, "abcd"]) is None
