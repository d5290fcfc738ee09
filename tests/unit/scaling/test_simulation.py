"""The simulation of many engines, compared with queueing theory."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import accumulate
from statistics import fmean

import pytest

from benchmarks.scaling.load import Arrival, Load
from benchmarks.scaling.report import Report
from benchmarks.scaling.simulation import POLICIES, Choose, simulate
from benchmarks.scaling.work import Costs
from guided_service.ray.affinity import Affinity

CALL = 0.01
ONE_BY_ONE = Costs(CALL, batch=1)
"""A queue with one server: each answer takes calls alone, one for each of its tokens."""


def mean_wait(report: Report, service: float) -> float:
    """Mean seconds that requests waited before any work on them."""
    return fmean(each.ended - each.came for each in report.answered) - service


@pytest.mark.parametrize(("use", "count"), [(0.3, 5_000), (0.6, 5_000), (0.8, 12_000)])
def test_waiting_is_that_of_m_d_1(use: float, count: int) -> None:
    load = Load(rate=use / CALL, count=count, tokens=1)
    wait = mean_wait(simulate(load.arrivals(), ONE_BY_ONE), CALL)
    assert wait == pytest.approx(CALL * use / (2 * (1 - use)), rel=0.05)


def test_waiting_at_the_ingress_is_that_of_m_d_1() -> None:
    load = Load(rate=60.0, count=10_000, tokens=1)
    report = simulate(load.arrivals(), Costs(0.0), ingress=CALL)
    assert mean_wait(report, CALL) == pytest.approx(CALL * 0.6 / (2 * 0.4), rel=0.05)


def test_waiting_for_answers_of_two_lengths_is_that_of_pollaczek_and_khinchine() -> None:
    draw = random.Random(0)
    rate, lengths = 20.0, (1, 5)
    times = accumulate(draw.expovariate(rate) for _ in range(10_000))
    arrivals = [Arrival(at, "", "", draw.choice(lengths)) for at in times]
    service = fmean(lengths) * CALL
    square = fmean((each * CALL) ** 2 for each in lengths)
    wait = mean_wait(simulate(arrivals, ONE_BY_ONE), service)
    assert wait == pytest.approx(rate * square / (2 * (1 - rate * service)), rel=0.05)


def test_arrivals_find_as_many_as_littles_law_says() -> None:
    found: list[float] = []

    def watched(draw: random.Random) -> Choose:
        choose = POLICIES["two choices"](draw)

        def choose_and_count(affinity: Affinity, loads: Mapping[int, float]) -> int:
            found.append(sum(loads.values()))
            return choose(affinity, loads)

        return choose_and_count

    load = Load(rate=60.0, count=10_000, tokens=5)
    report = simulate(load.arrivals(), Costs(0.02, batch=2), engines=4, policy=watched)
    # Random arrivals see the average state.
    assert fmean(found) == pytest.approx(60.0 * mean_wait(report, 0.0), rel=0.02)


@pytest.mark.parametrize("engines", [1, 2, 4])
@pytest.mark.parametrize("policy", POLICIES)
def test_busy_engines_answer_as_many_as_their_calls_allow(engines: int, policy: str) -> None:
    costs = Costs(0.1, batch=8)
    load = Load(rate=1000.0 * engines, count=800 * engines, tokens=16)
    report = simulate(load.arrivals(), costs, engines=engines, policy=policy)
    assert report.rate == pytest.approx(engines * 8 / (16 * 0.1), rel=0.05)


APPLICATIONS = Load(
    rate=20.0, count=400, applications=10, shared_bytes=1024, tokens=4, constraints=None
)
ROOMY = Costs(0.01, token=0.0001, compiling=0.05)


def test_each_constraint_is_compiled_once_where_requests_go_by_it() -> None:
    report = simulate(APPLICATIONS.arrivals(), ROOMY, engines=4)
    assert (report.hits.asked, report.hits.compiled) == (400, 10)


def test_each_constraint_is_compiled_everywhere_where_they_go_anywhere() -> None:
    report = simulate(APPLICATIONS.arrivals(), ROOMY, engines=4, policy="two choices")
    assert report.hits.compiled == 4 * 10


def test_beginnings_are_computed_once_where_requests_go_by_them() -> None:
    hits = simulate(APPLICATIONS.arrivals(), ROOMY, engines=4).hits
    assert hits.reused_tokens == (400 - 10) * 1024 // 4


def test_what_does_not_fit_is_computed_again() -> None:
    tight = Costs(0.01, kept_tokens=256, kept_constraints=1)
    alternating = [Arrival(float(i), f"{i % 2}" * 1024, f"{i % 2}", 1) for i in range(10)]
    hits = simulate(alternating, tight).hits
    assert (hits.reused_tokens, hits.compiled) == (0, 10)


@pytest.mark.parametrize(
    ("compiling", "prefix", "constraint"),
    [(0.002, (0.75, 1.0), (0.0, 0.5)), (0.2, (0.0, 0.7), (0.7, 1.0))],
)
def test_a_constraint_counts_for_what_it_takes(
    compiling: float, prefix: tuple[float, float], constraint: tuple[float, float]
) -> None:
    load = Load(25.0, count=1000, applications=48, shared_bytes=1024, own_bytes=256, constraints=48)
    costs = Costs(0.0145, token=0.00038, compiling=compiling, kept_constraints=16)
    hits = simulate(load.arrivals(), costs, engines=4).hits
    assert prefix[0] <= hits.prefix <= prefix[1]
    assert constraint[0] <= hits.constraint <= constraint[1]


def test_a_seed_says_all() -> None:
    first, again = (
        simulate(APPLICATIONS.arrivals(), ROOMY, engines=4, ingresses=2) for _ in range(2)
    )
    assert first == again
    other = simulate(APPLICATIONS.arrivals(), ROOMY, engines=4, ingresses=2, seed=1)
    assert other.answered != first.answered
