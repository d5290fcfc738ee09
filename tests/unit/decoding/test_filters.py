"""Every filter keeps the tokens that transformers' filter keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from guided.decoding import filters
from guided.decoding.filters import smallest_indices
from guided.spec import Sampling

Scores = NDArray[np.float64]

SHARES = (0.02, 0.3, 0.7, 0.95, 0.999)
CUTOFFS = (1e-5, 3e-4, 0.01, 0.2, 0.9)

# For each filter: ours, theirs, and parameters for both.
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, ...]]] = {
    "top_k": (filters.top_k, TopKLogitsWarper, (1, 2, 17, 5000)),
    "top_p": (filters.top_p, TopPLogitsWarper, SHARES),
    "min_p": (filters.min_p, MinPLogitsWarper, (*SHARES, 1.0)),
    "typical_p": (filters.typical_p, TypicalLogitsWarper, SHARES),
    "epsilon_cutoff": (filters.epsilon_cutoff, EpsilonLogitsWarper, CUTOFFS),
    "eta_cutoff": (filters.eta_cutoff, EtaLogitsWarper, CUTOFFS),
}


def random_scores(size: int, spread: float, seed: int) -> Scores:
    return np.random.default_rng(seed).normal(0, spread, size)


def kept_by(theirs: Any, scores: Scores) -> list[int]:
    row = torch.from_numpy(scores)[None]
    processed = theirs(torch.zeros((1, 0), dtype=torch.long), row)[0]
    return [int(i) for i in torch.nonzero(torch.isfinite(processed)).flatten()]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("size", [1, 2, 30, 3000])
@pytest.mark.parametrize("spread", [0.0001, 1.0, 4.0])
def test_the_kept_set_is_that_of_transformers(name: str, size: int, spread: float) -> None:
    ours, theirs, parameters = PAIRS[name]
    for seed, parameter in enumerate(parameters):
        scores = random_scores(size, spread, seed)
        expected = kept_by(theirs(parameter), scores)
        assert ours(scores, parameter).tolist() == expected, parameter
        assert expected


@pytest.mark.parametrize("name", PAIRS)
def test_a_constant_added_to_all_scores_changes_nothing(name: str) -> None:
    ours, _, parameters = PAIRS[name]
    for seed, parameter in enumerate(parameters):
        scores = random_scores(50, 2.0, seed)
        assert ours(scores - 300, parameter).tolist() == ours(scores, parameter).tolist()


@pytest.mark.parametrize("name", PAIRS)
def test_tokens_without_probability_do_no_harm(name: str) -> None:
    """Logits of minus infinity come from a model that is narrower than its tokenizer."""
    ours, _, parameters = PAIRS[name]
    for seed, parameter in enumerate(parameters):
        if name == "top_k":
            continue  # it counts tokens, whatever their probability
        scores = random_scores(20, 2.0, seed)
        padded = np.concatenate((scores, [-np.inf, -np.inf]))
        assert ours(padded, parameter).tolist() == ours(scores, parameter).tolist()


@pytest.mark.parametrize("name", PAIRS)
def test_of_equals_at_least_one_stays(name: str) -> None:
    ours, _, parameters = PAIRS[name]
    for parameter in parameters:
        assert len(ours(np.zeros(7), parameter)) >= 1


def test_a_share_of_one_keeps_all() -> None:
    scores = random_scores(30, 3.0, 0)
    assert len(filters.top_p(scores, 1.0)) == len(filters.typical_p(scores, 1.0)) == 30


def test_filters_come_in_the_documented_order_each_on_what_is_left() -> None:
    sampling = Sampling(
        temperature=1.0,
        top_k=60,
        top_p=0.98,
        min_p=0.01,
        typical_p=0.95,
        epsilon_cutoff=0.005,
        eta_cutoff=0.2,
    )
    for seed in range(200):
        scores = random_scores(200, 1.5, seed)
        row = torch.from_numpy(scores)[None]
        for _, theirs, parameter in (
            (*PAIRS["top_k"][:2], 60),
            (*PAIRS["top_p"][:2], 0.98),
            (*PAIRS["min_p"][:2], 0.01),
            (*PAIRS["typical_p"][:2], 0.95),
            (*PAIRS["epsilon_cutoff"][:2], 0.005),
            (*PAIRS["eta_cutoff"][:2], 0.2),
        ):
            row = theirs(parameter)(torch.zeros((1, 0), dtype=torch.long), row)
        expected = torch.nonzero(torch.isfinite(row[0])).flatten().tolist()
        assert filters.filter_tokens(scores, sampling).tolist() == expected


def test_without_filters_everything_stays() -> None:
    assert filters.filter_tokens(random_scores(9, 1.0, 0), Sampling()).tolist() == list(range(9))


@pytest.mark.parametrize("keys", [[3.0, 1.0, 2.0, 1.0, 1.0], [0.0], [], [5.0, 5.0, 5.0]])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_the_least_are_the_first_when_sorted(keys: list[float], count: int) -> None:
    ordered = sorted(range(len(keys)), key=lambda index: (keys[index], index))
    assert smallest_indices(np.array(keys), count).tolist() == ordered[:count]
