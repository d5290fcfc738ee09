"""The slowness of model calls is tracked, but a single one does not change it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from guided.decoding import CostCurve
from guided.engine.drafting import Drafting
from guided.engine.request_isolation import RequestIsolation
from guided.engine.runnable import Runnable, Step
from tests.unit.engine.test_scheduler import Setup, runnable

CURVE = CostCurve(((1, 1.0), (8, 2.0)))


def test_slowness_follows_what_calls_take_beside_the_curve() -> None:
    drafting = Drafting(None, 8, CURVE)
    assert drafting.slowness == 1.0
    for _ in range(100):
        drafting.record_call(8, 6.0)
    assert drafting.slowness == pytest.approx(3.0, rel=0.01)
    for _ in range(100):
        drafting.record_call(1, 1.0)
    assert drafting.slowness == pytest.approx(1.0, rel=0.01)


def test_one_long_pause_changes_little() -> None:
    drafting = Drafting(None, 8, CURVE)
    drafting.record_call(1, 1000.0)
    assert drafting.slowness < 1.2


def test_without_a_curve_there_is_nothing_to_compare_with() -> None:
    drafting = Drafting(None, 8, None)
    drafting.record_call(1, 1000.0)
    assert drafting.slowness == 1.0


def test_a_sequence_goes_without_drafts_for_as_many_steps_as_were_said() -> None:
    setup = Setup(blocks=20)
    setup.wait(runnable("a", 1.0))
    setup.start_all()
    (undrafted,) = setup.scheduler.running
    undrafted.steps_without_drafts = 3
    drafting = Drafting(None, 8, CURVE)
    left = []
    for _ in range(4):
        drafting.draft(setup.scheduler.plan(), isolated, pause)
        left.append(undrafted.steps_without_drafts)
    assert left == [2, 1, 0, 0]


def isolated(request_id: str) -> RequestIsolation:
    return RequestIsolation(request_id, fail)


def fail(request_id: str, error: Exception) -> None:
    raise AssertionError(request_id) from error


def pause(runnable: Runnable, begin: Callable[[], Step]) -> None:
    raise AssertionError(runnable, begin)
