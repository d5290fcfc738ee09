"""Typical acceptance: which drafts stay, which path is taken, and where it changes nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.decoding import (
    NO_HISTORY,
    Chooser,
    ChosenToken,
    DraftBudget,
    DraftBuilder,
    DraftTree,
    verify,
)
from guided.decoding.token_distribution import TokenDistribution
from guided.decoding.typical import DELTA, EPSILON, acceptance_threshold
from guided.spec import Forcing, Sampling, TokenId, Verification
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes

ROOT: Any = WordMatcher.of(("ab", "ac", "bab", "bac", "c"))
A, B, C = (spell_bytes(text)[0] for text in (b"a", b"b", b"c"))


def chooser(temperature: float = 1.0, **changed: Any) -> Chooser:
    whole: dict[str, Any] = {
        "sampling": Sampling(temperature=temperature),
        "seed": 0,
        "max_tokens": 20,
        "end_ids": END_IDS,
        "verification": Verification.TYPICAL,
    }
    return Chooser(**(whole | changed))


def row(**shares: float) -> NDArray[np.float32]:
    """Logits of a model that gives these tokens these shares, and others none."""
    logits = np.full(len(TOKEN_BYTES), -30.0, np.float32)
    for text, share in shares.items():
        logits[spell_bytes(text.encode())[0]] = math.log(share)
    return logits


def builder() -> DraftBuilder:
    return DraftBuilder(
        DraftTree.chain([TokenId(40)], ROOT),
        Forcing.OFF,
        budget=DraftBudget(20),
        tokens_left=20,
        end_ids=END_IDS,
    )


def test_the_bound_is_the_lower_where_the_model_is_undecided() -> None:
    tokens = np.arange(100, dtype=np.int64)
    assert acceptance_threshold(TokenDistribution(tokens[:1], np.ones(1))) == min(EPSILON, DELTA)
    assert acceptance_threshold(TokenDistribution(tokens, np.ones(100))) == pytest.approx(
        DELTA / 100
    )
    assert pytest.approx(EPSILON**0.5) == DELTA


def test_the_longest_path_is_taken_though_another_begins_likelier() -> None:
    made = builder()
    a = made.add(0, A)
    b = made.add(0, B)
    assert a is not None
    assert b is not None
    ba = made.add(b, A)
    assert ba is not None
    tree = made.tree()
    rows = {0: row(a=0.7, b=0.2, c=0.1), a: row(b=0.5, c=0.5), b: row(a=1.0)}
    rows |= {ba: row(b=0.5, c=0.5)}
    taken = verify(tree, rows, chooser(), 0, NO_HISTORY)
    assert taken.path == (0, b, ba)
    assert isinstance(taken.choice, ChosenToken)  # and what follows is drawn


def test_of_equally_long_paths_the_likeliest_is_taken() -> None:
    made = builder()
    b, a = made.add(0, B), made.add(0, A)
    assert a is not None
    assert b is not None
    rows = {0: row(a=0.6, b=0.3, c=0.1), a: row(b=0.5, c=0.5), b: row(a=1.0)}
    assert verify(made.tree(), rows, chooser(), 0, NO_HISTORY).path == (0, a)


def test_what_is_too_unlikely_does_not_stay_and_the_choice_is_the_usual_one() -> None:
    made = builder()
    assert made.add(0, B) is not None
    rows = {0: row(a=0.96, b=0.04), 1: row(a=1.0)}
    for seed in range(40):
        typical = verify(made.tree(), rows, chooser(seed=seed), 0, NO_HISTORY)
        coupled = chooser(seed=seed, verification=Verification.COUPLED)
        assert typical == verify(made.tree(), rows, coupled, 0, NO_HISTORY)


def test_what_could_not_end_in_its_budget_does_not_stay() -> None:
    made = builder()
    assert made.add(0, B) is not None
    rows = {0: row(a=0.3, b=0.6, c=0.1), 1: row(a=1.0)}
    # After b two more tokens have to follow, or one that is both.
    assert verify(made.tree(), rows, chooser(max_tokens=20), 0, NO_HISTORY).path == (0, 1)
    assert verify(made.tree(), rows, chooser(max_tokens=1), 0, NO_HISTORY).path == (0,)


def test_at_temperature_0_it_is_the_greedy_choice() -> None:
    made = builder()
    b = made.add(0, B)
    assert b is not None
    assert made.add(b, A) is not None
    rows = {0: row(a=0.55, b=0.45), b: row(a=1.0), b + 1: row(b=0.5, c=0.5)}
    greedy = verify(made.tree(), rows, chooser(0.0), 0, NO_HISTORY)
    assert greedy.path == (0,)
    assert isinstance(greedy.choice, ChosenToken)
    assert greedy.choice.token == A


def test_log_probabilities_of_what_stays_are_told() -> None:
    made = builder()
    a = made.add(0, A)
    assert a is not None
    rows = {0: row(a=0.6, b=0.4), a: row(b=0.5, c=0.5)}
    taken = verify(made.tree(), rows, chooser(top_logprobs=2), 0, NO_HISTORY)
    (known,) = taken.logprobs
    assert known.masked == pytest.approx(math.log(0.6))
    assert [token for token, _, _ in known.top] == [A, B]
    assert C not in [token for token, _, _ in known.top]
