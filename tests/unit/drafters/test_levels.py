"""A draft model goes on level by level, as long as the next one pays for the call that it takes."""

from __future__ import annotations

from typing import Any

import pytest

from guided.decoding import Acceptance, CostCurve, DraftBudget, DraftTree
from guided.drafters.draft_model.levels import LevelCosts, Levels
from guided.spec import TokenId
from tests.engine.finite_language import AnythingMatcher, spell_bytes
from tests.kit.draft_context import verified

STEP = 0.010
FLAT = CostCurve(((1, STEP), (512, STEP)))
"""Calls of the target take as long, whatever is drafted."""
RIGHT, WRONG = spell_bytes(b"xy")


def costs(call: float) -> LevelCosts:
    """Those of a draft model whose calls take so many steps of the target."""
    now = 0

    def clock() -> int:
        nonlocal now
        now += round(1e9 * call * STEP)
        return now

    known = LevelCosts(clock)
    for _ in range(2):  # the first is not counted
        with known.timed(1):
            pass
    return known


def levels_of(levels: Levels, chance: float, sequences: int = 1) -> int:
    """How many levels a chain gets, each node of which has this chance; at most eight.

    The first is made by the call that reads the text in any case.
    """
    budget = DraftBudget(32, FLAT, certain=sequences, sequences=sequences)
    count, here = 1, chance
    budget.spend(1, here)
    while count < 8 and levels.pays(count, here, budget, sequences):
        here *= chance
        budget.spend(1, here)
        count += 1
    return count


def judge(levels: Levels, level: int, *, is_right: bool) -> None:
    """Let a level draft one token, and the model say it or another."""
    levels.begin()
    levels.note(level, 0, [RIGHT])
    tree = drafted(RIGHT)
    path = (0, 1) if is_right else (0,)
    levels.learn(verified(tree, Acceptance(path, _choice(), narrowed=False)))


def drafted(token: TokenId) -> DraftTree:
    matcher: Any = AnythingMatcher()
    return DraftTree((WRONG, token), (None, 0), (True, False), (matcher, matcher), ("", "draft"))


def _choice() -> Any:
    """Anything but ``None``: what comes after the path was chosen."""
    return object()


@pytest.mark.parametrize(
    ("call", "chance", "expected"),
    [
        (0.02, 0.9, 8),
        (0.1, 0.9, 5),
        (0.1, 0.6, 3),
        (0.1, 0.2, 2),
        (0.3, 0.9, 2),
        (0.3, 0.5, 1),
        (1.0, 0.9, 1),
    ],
)
def test_a_chain_is_as_long_as_its_levels_pay(call: float, chance: float, expected: int) -> None:
    assert levels_of(Levels(costs(call), is_charged=True), chance) == expected


def test_who_is_named_drafts_every_level() -> None:
    assert levels_of(Levels(costs(5.0), is_charged=False), 0.1) == 8


def test_what_was_never_timed_is_tried() -> None:
    assert levels_of(Levels(LevelCosts(), is_charged=True), 0.1) == 8


def test_a_call_for_several_sequences_is_shared_by_them_as_a_step_is() -> None:
    known = costs(0.1)
    levels = Levels(known, is_charged=True)
    assert levels_of(levels, 0.9, 8) == levels_of(levels, 0.9)


def test_a_level_that_is_seldom_right_is_given_up_and_tried_again() -> None:
    levels = Levels(costs(0.1), is_charged=True)
    before = levels_of(levels, 0.9)
    assert before == 5
    for _ in range(40):
        judge(levels, 1, is_right=False)
    assert levels_of(levels, 0.9) == 1
    for _ in range(40):
        judge(levels, 1, is_right=True)
    assert levels_of(levels, 0.9) == before
    for _ in range(40):
        judge(levels, 1, is_right=False)
    # The first level goes on being drafted; the second is not, and what was seen of it fades.
    for _ in range(200):
        judge(levels, 0, is_right=True)
    assert levels_of(levels, 0.9) == before


def test_tokens_after_one_node_are_one_trial() -> None:
    known = costs(0.1)
    levels = Levels(known, is_charged=True)
    for _ in range(50):
        levels.begin()
        levels.note(1, 0, [WRONG, RIGHT])
        accepted = Acceptance((0, 1), _choice(), narrowed=False)
        levels.learn(verified(drafted(RIGHT), accepted))
    assert known.rates.rate(1) == pytest.approx(1.0, abs=0.05)
