"""The similarity to earlier states, and which candidate token is taken."""

from __future__ import annotations

import numpy as np
import pytest

from guided.decoding.choice import ChosenToken
from guided.decoding.contrastive_search import CandidateToken, SeenStates, pick_candidate_token
from guided.errors import ModelError
from guided.spec import TokenId


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
