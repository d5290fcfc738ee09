"""The similarity to earlier states, and which candidate token is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guided.decoding.choice import Chooser, ChosenToken, FinalCompletion
from guided.decoding.contrastive_search import (
    CandidateToken,
    SeenStates,
    find_candidate_tokens,
    pick_candidate_token,
)
from guided.decoding.penalties import History
from guided.errors import ModelError
from guided.spec import Sampling, TokenId
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, AnythingMatcher


def candidates(*probabilities: float) -> list[CandidateToken]:
    return [
        CandidateToken(ChosenToken(TokenId(token), None, budget_limited=False), probability)
        for token, probability in enumerate(probabilities)
    ]


def test_likeness_is_the_largest_cosine_however_the_text_came() -> None:
    random = np.random.default_rng(0)
    states = random.normal(size=(37, 8)).astype(np.float32)
    tried = random.normal(size=(5, 8)).astype(np.float32)
    seen = SeenStates()
    for piece in np.split(states, [1, 2, 5, 30]):
        seen.append(piece)
    assert len(seen) == 37
    lengths = np.outer(np.linalg.norm(tried, axis=1), np.linalg.norm(states, axis=1))
    assert seen.max_similarity(tried) == pytest.approx(
        (tried @ states.T / lengths).max(axis=1), abs=1e-6
    )


def test_a_state_without_length_is_like_nothing_and_one_that_is_no_number_is_refused() -> None:
    seen = SeenStates()
    seen.append(np.array([[0, 2]], np.float32))
    assert seen.max_similarity(
        np.array([[0, 0], [0, 5], [3, 0], [0, -1]], np.float32)
    ).tolist() == [
        0,
        1,
        0,
        -1,
    ]
    with pytest.raises(ModelError, match="hidden states are not numbers"):
        seen.append(np.array([[np.nan, 1]], np.float32))


@pytest.mark.parametrize(
    ("probabilities", "likeness", "alpha", "taken"),
    [
        ((0.6, 0.4), (0.9, 0.1), 0.0, 0),
        ((0.6, 0.4), (0.9, 0.1), 0.5, 1),
        ((0.6, 0.4), (0.9, 0.1), 1.0, 1),
        ((0.9, 0.1), (0.9, 0.8), 0.5, 0),
        ((0.5, 0.5), (0.3, 0.3), 0.5, 0),  # the first of equal ones
    ],
)
def test_the_one_is_taken_that_is_likely_and_unlike(
    probabilities: tuple[float, ...], likeness: tuple[float, ...], alpha: float, taken: int
) -> None:
    assert pick_candidate_token(candidates(*probabilities), np.array(likeness), alpha) == taken


def test_the_likeliest_are_found_where_probabilities_are_rounded_to_nothing() -> None:
    """1 / exp(800) is no double, yet it is more than 1 / exp(900)."""
    chooser = Chooser(Sampling(penalty_alpha=0.5, top_k=3), 0, max_tokens=9, end_ids=END_IDS)
    logits = np.full(len(TOKEN_BYTES), -1200, np.float32)
    logits[[3, 5, 1]] = 0, -800, -900
    history = History(np.zeros(1, np.int64), prompt_length=1, end_ids=END_IDS)
    matcher: Any = AnythingMatcher()
    found = find_candidate_tokens(logits, matcher, 0, history, chooser)
    assert not isinstance(found, FinalCompletion)
    assert [(one.choice.token, one.probability) for one in found] == [(3, 1), (5, 0), (1, 0)]
