"""A short form of ``make soak``: callers of every kind at once, and an engine that is killed."""

from __future__ import annotations

from tests.kit.effort import times
from tests.kit.soak import Plan, report, run_soak
from tests.service.http_server import HttpServer


def test_every_answer_is_its_callers_own_and_nothing_is_left_behind(
    tiny_web: HttpServer,
) -> None:
    plan = Plan(times(10), streams=66, others=34, kill_every=times(3), warm_seconds=times(1))
    outcome = run_soak(tiny_web, plan)
    assert not outcome.faults, report(outcome)
    assert outcome.tally.most_open == plan.callers
    assert outcome.restarts
    assert outcome.tally.count("answered") > plan.callers
