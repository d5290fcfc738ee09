"""The number of drafts follows from the cost of model calls and the chances of drafts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guided.decoding import CostCurve, DraftBudget
from guided.decoding.draft_budget import AcceptanceRates

FLAT_THEN_STEEP = CostCurve(((1, 1.0), (8, 1.0), (16, 2.0)))


def taken(budget: DraftBudget, chance: float) -> int:
    """How many drafts of equal chance, one after the other, a budget takes."""
    count, here = 0, chance
    while budget.pays(1, here):
        budget.spend(1, here)
        count, here = count + 1, here * chance
    return count


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({1: 1.0, 2: 3.0, 4: 2.0, 8: 4.0}, (1.0, 2.0, 2.0, 4.0)),
        ({1: 3.0, 2: 2.0, 4: 1.0}, (1.0, 1.0, 1.0)),
        ({1: 1.0, 2: 2.0}, (1.0, 2.0)),
    ],
)
def test_a_call_takes_no_longer_than_wider_ones(
    measured: dict[int, float], expected: tuple[float]
) -> None:
    curve = CostCurve.from_measurements(measured)
    assert curve.points == tuple(zip(measured, expected, strict=True))


def test_a_curve_is_a_line_between_its_points_and_beyond_them() -> None:
    curve = FLAT_THEN_STEEP
    assert [curve.seconds(tokens) for tokens in (1, 4, 8, 12, 16, 32)] == [1, 1, 1, 1.5, 2, 4]


@example({1: 1.4354940663707647, 50: 6.3909661081475075, 51: 5.0})
@given(st.dictionaries(st.integers(1, 500), st.floats(0.001, 10), min_size=2))
def test_more_tokens_never_take_less_time(measured: dict[int, float]) -> None:
    curve = CostCurve.from_measurements(measured)
    seconds = [curve.seconds(tokens) for tokens in range(1, 600, 7)]
    assert seconds == sorted(seconds)


def test_drafts_are_taken_where_they_cost_nothing_and_may_be_right() -> None:
    assert taken(DraftBudget(32, FLAT_THEN_STEEP), 0.9) == 7
    assert taken(DraftBudget(4, FLAT_THEN_STEEP), 0.9) == 4
    assert taken(DraftBudget(32, FLAT_THEN_STEEP), 0.01) == 0


def test_a_draft_on_the_slope_pays_if_it_saves_more_than_it_costs() -> None:
    """With 8 tokens certain the next adds an eighth of a second to save a call of one second."""
    certain = 8
    assert DraftBudget(9, FLAT_THEN_STEEP, certain=certain).pays(1, 0.13)
    assert not DraftBudget(9, FLAT_THEN_STEEP, certain=certain).pays(1, 0.12)
    assert not DraftBudget(9, FLAT_THEN_STEEP, certain=certain).pays(2, 0.2)


STEP_THEN_FLAT = CostCurve(((1, 1.0), (2, 1.8), (8, 2.0), (9, 4.0)))
"""As if few tokens are multiplied one by one, or by another kernel than a single one."""


@pytest.mark.parametrize(("chance", "expected"), [(0.95, 7), (0.81, 7), (0.6, 5), (0.4, 0)])
def test_a_draft_pays_as_well_where_it_does_with_those_after_it(
    chance: float, expected: int
) -> None:
    """The first costs 0.8 of a call, which none earns alone; those after it cost almost nothing."""
    assert taken(DraftBudget(32, STEP_THEN_FLAT), chance) == expected


def test_what_there_is_no_room_for_pays_for_nothing() -> None:
    """0.6, 0.36 and 0.216 are more than 0.87 calls, the first two alone more than 0.83."""
    assert [taken(DraftBudget(room, STEP_THEN_FLAT), 0.6) for room in (1, 2)] == [0, 2]
    assert taken(DraftBudget(1, STEP_THEN_FLAT), 0.81) == 1


def test_what_never_follows_pays_for_nothing() -> None:
    """The last level of a draft model, or the last token of an answer, is like a lack of room."""
    for max_following, pays in ((0, False), (1, True), (None, True)):
        assert DraftBudget(32, STEP_THEN_FLAT).pays(1, 0.6, max_following) is pays
    assert not DraftBudget(32, STEP_THEN_FLAT).pays(2, 0.5, max_following=0)


def test_many_sequences_draft_less_each() -> None:
    lengths = [
        taken(DraftBudget(32, FLAT_THEN_STEEP, certain=n, sequences=n), 0.8) for n in (1, 2, 4, 8)
    ]
    assert lengths == [7, 3, 1, 0]


def test_who_drafts_nothing_takes_one_token_and_gives_one() -> None:
    """One of four drafts: up to eight tokens that is free; beyond that it makes all four wait."""
    alone = DraftBudget(32, FLAT_THEN_STEEP, certain=4, undrafted=3)
    assert taken(alone, 0.8) == 4
    assert alone.step_seconds == 1 / 4
    ramp = CostCurve(((1, 1.0), (11, 2.0)))
    # At four tokens in 1.3 seconds, a tenth of a second is worth 0.31.
    assert not DraftBudget(1, ramp, certain=4, undrafted=3).pays(1, 0.3)
    assert DraftBudget(1, ramp, certain=4, undrafted=3).pays(1, 0.32)


def test_seconds_are_those_of_one_sequence_and_of_calls_as_slow_as_they_are_now() -> None:
    for slowness in (1.0, 3.0):
        budget = DraftBudget(9, FLAT_THEN_STEEP, certain=4, sequences=4, slowness=slowness)
        assert budget.step_seconds == slowness / 4
        budget.spend(2, 0.9)
        assert (budget.added_seconds(2), budget.added_seconds(1)) == (slowness / 8, slowness / 8)
    assert (DraftBudget(9).step_seconds, DraftBudget(9).added_seconds(3)) == (None, 0.0)


@pytest.mark.parametrize(
    ("sequences", "expected"), [(1, [7, 7, 7, 5, 2, 0]), (4, [1, 1, 1, 1, 1, 0])]
)
def test_a_tree_grows_while_its_path_is_likely_enough(sequences: int, expected: list[int]) -> None:
    """The table of docs/drafter-policy.md."""
    lengths = [
        taken(DraftBudget(32, FLAT_THEN_STEEP, certain=sequences, sequences=sequences), chance)
        for chance in (0.95, 0.9, 0.8, 0.6, 0.3, 0.05)
    ]
    assert lengths == expected


def test_where_a_token_costs_as_much_as_a_call_nothing_pays() -> None:
    linear = CostCurve(((1, 1.0), (2, 2.0)))
    for certain in (1, 10, 1000):
        assert not DraftBudget(9, linear, certain=certain).pays(1, 1.0)


def test_rates_begin_as_assumed_follow_what_is_seen_and_go_back() -> None:
    rates = AcceptanceRates({"a": 0.5, "b": 0.2})
    assert (rates.rate("a"), rates.rate("b")) == (0.5, 0.2)
    for _ in range(100):
        rates.decay()
        rates.add("a", 1.0, is_hit=False)
    assert rates.rate("a") < 0.1
    assert rates.rate("b") == 0.2
    assert (rates.judged["a"], rates.accepted["a"]) == (100, 0)
    for _ in range(200):
        rates.decay()
    assert rates.rate("a") == pytest.approx(0.5, abs=0.02)


def test_drafts_that_exclude_each_other_share_one_trial() -> None:
    rates = AcceptanceRates({"a": 0.5})
    for _ in range(1000):
        for option in range(4):
            rates.add("a", 0.25, is_hit=option == 2)
    assert rates.rate("a") == pytest.approx(1.0, abs=0.01)
