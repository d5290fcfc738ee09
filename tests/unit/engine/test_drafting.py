"""How slow model calls are is followed, but not by what a single one says."""

from __future__ import annotations

import pytest

from guided.decoding import CostCurve
from guided.engine.drafting import Drafting

CURVE = CostCurve(((1, 1.0), (8, 2.0)))


def test_slowness_follows_what_calls_take_beside_the_curve() -> None:
    drafting = Drafting(None, 8, CURVE)
    assert drafting.slowness == 1.0
    for _ in range(100):
        drafting.note_call(8, 6.0)
    assert drafting.slowness == pytest.approx(3.0, rel=0.01)
    for _ in range(100):
        drafting.note_call(1, 1.0)
    assert drafting.slowness == pytest.approx(1.0, rel=0.01)


def test_one_long_pause_changes_little() -> None:
    drafting = Drafting(None, 8, CURVE)
    drafting.note_call(1, 1000.0)
    assert drafting.slowness < 1.2


def test_without_a_curve_there_is_nothing_to_compare_with() -> None:
    drafting = Drafting(None, 8, None)
    drafting.note_call(1, 1000.0)
    assert drafting.slowness == 1.0
