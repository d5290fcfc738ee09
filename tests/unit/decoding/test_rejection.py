"""Rejection keeps the distribution whatever is proposed, and accepts as often as possible."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from guided.decoding import Proposal, TokenDistribution, choose_by_rejection
from guided.spec import TokenId

SIZE = 6
TOKENS = np.arange(SIZE, dtype=np.int64)
ROUNDS = 2_000


def random_law(draws: np.random.Generator) -> TokenDistribution:
    weights = draws.exponential(1, SIZE) ** 2
    weights[draws.integers(SIZE)] = 0.0  # an impossible token
    return TokenDistribution(TOKENS, weights)


def propose(
    draws: np.random.Generator, distribution: TokenDistribution, count: int, *known: TokenId
) -> list[Proposal]:
    """Some known tokens, then draws from the rest of a distribution, none twice."""
    proposals = [Proposal(token, None) for token in known]
    left = distribution.without(known) if known else distribution
    for _ in range(count):
        if left is None:
            break
        token = left.draw(draws.uniform(1e-12, 1 - 1e-12))
        proposals.append(Proposal(token, left))
        left = left.without([token])
    return proposals


def furthest(counts: Counter[TokenId], distribution: TokenDistribution) -> float:
    """The largest distance from the expected counts, in standard deviations."""
    total = counts.total()
    return max(
        float(
            abs(counts[TokenId(int(token))] - total * share) / np.sqrt(total * share * (1 - share))
        )
        for token, share in zip(distribution.tokens, distribution.probabilities, strict=True)
        if share > 0
    )


@pytest.mark.parametrize("count", [1, 3, SIZE])
@pytest.mark.parametrize("known", [(), (TokenId(2),), (TokenId(4), TokenId(1))])
def test_the_law_of_the_choice_is_the_law_of_the_model(
    count: int, known: tuple[TokenId, ...]
) -> None:
    draws = np.random.default_rng(count)
    p, q = random_law(draws), random_law(draws)
    counts = Counter(
        choose_by_rejection(p, propose(draws, q, count, *known), seed=seed, position=7)
        for seed in range(ROUNDS)
    )
    assert all(p.probability(token) > 0 for token in counts)
    assert furthest(counts, p) < 4.5


def test_one_draw_is_taken_as_often_as_both_laws_have_in_common() -> None:
    draws = np.random.default_rng(3)
    p, q = random_law(draws), random_law(draws)
    taken = 0
    for seed in range(ROUNDS):
        (proposal,) = propose(draws, q, 1)
        taken += choose_by_rejection(p, [proposal], seed=seed, position=0) == proposal.token
    # A refused token is never drawn afterwards, so this counts acceptances.
    common = float(np.minimum(p.probabilities, q.probabilities).sum())
    assert abs(taken / ROUNDS - common) < 4.5 * np.sqrt(common * (1 - common) / ROUNDS)


def test_a_drafter_that_thinks_as_the_model_is_always_right() -> None:
    draws = np.random.default_rng(4)
    distribution = random_law(draws)
    for seed in range(500):
        proposals = propose(draws, distribution, 2)
        assert (
            choose_by_rejection(distribution, proposals, seed=seed, position=1)
            == proposals[0].token
        )


def test_a_choice_is_a_hash_of_seed_and_position() -> None:
    draws = np.random.default_rng(5)
    distribution = random_law(draws)
    proposals = propose(draws, random_law(draws), 2)

    def chosen(seed: int, position: int) -> TokenId:
        return choose_by_rejection(distribution, proposals, seed=seed, position=position)

    places = [(seed, position) for seed in range(10) for position in range(10)]
    assert [chosen(*place) for place in places] == [chosen(*place) for place in places]
    assert len({chosen(0, position) for position in range(50)}) > 1
    assert len({chosen(seed, 0) for seed in range(50)}) > 1


def test_the_example_of_the_documentation() -> None:
    """docs/verification.md: blue, red and black, of which two are drawn."""
    blue, red = TokenId(0), TokenId(1)
    tokens = np.arange(3, dtype=np.int64)
    p = TokenDistribution(tokens, np.array([0.5, 0.3, 0.2]))
    q = TokenDistribution(tokens, np.array([0.8, 0.2, 0.0]))
    left = p.subtract(q)
    assert left is not None
    assert left.probabilities.tolist() == pytest.approx([0, 1 / 3, 2 / 3])
    only_red = q.without([blue])
    assert only_red is not None
    proposals = [Proposal(blue, q), Proposal(red, only_red)]
    counts = Counter(
        choose_by_rejection(p, proposals, seed=seed, position=0) for seed in range(ROUNDS)
    )
    # Given that blue was drawn first: 0.625, then 1/3 and 2/3 of the rest.
    given_blue = TokenDistribution(tokens, np.array([0.625, 0.125, 0.25]))
    assert furthest(counts, given_blue) < 4.5
    assert {choose_by_rejection(p, [Proposal(red, q)], seed=n, position=0) for n in range(99)} == {
        red
    }
