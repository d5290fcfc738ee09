"""Laws over tokens: shares, differences, draws."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.decoding import TokenDistribution
from guided.spec import TokenId

A, B, C, D = (TokenId(token) for token in (3, 5, 8, 13))


def distribution(**shares: float) -> TokenDistribution:
    tokens = {"a": A, "b": B, "c": C, "d": D}
    weights = np.array(list(shares.values()), dtype=np.float64)
    return TokenDistribution(np.array([tokens[name] for name in shares], dtype=np.int64), weights)


def shares(of: TokenDistribution | None) -> dict[int, float]:
    assert of is not None
    return {int(t): float(s) for t, s in zip(of.tokens, of.probabilities, strict=True) if s > 0}


def test_the_example_of_the_module() -> None:
    p, q = distribution(a=0.5, b=0.3, c=0.2), distribution(a=0.8, b=0.2)
    assert shares(p.subtract(q)) == pytest.approx({B: 1 / 3, C: 2 / 3})
    assert shares(p.without([A])) == pytest.approx({B: 0.6, C: 0.4})


def test_tokens_that_only_one_of_two_laws_has() -> None:
    p, q = distribution(a=0.5, c=0.5), distribution(b=0.4, d=0.6)
    assert shares(p.subtract(q)) == shares(p)
    assert (p.probability(B), p.probability(D), p.probability(TokenId(0))) == (0.0, 0.0, 0.0)


def test_nothing_is_left_of_equal_laws_and_of_all_tokens() -> None:
    p = distribution(a=0.25, b=0.75)
    assert p.subtract(distribution(a=0.25, b=0.75)) is None
    assert p.without([A, B]) is None


def test_scores_are_logarithms_up_to_a_constant() -> None:
    tokens = np.array([A, B], dtype=np.int64)
    scores = np.array([1000.0, 1000.0 + np.log(3)])
    assert shares(TokenDistribution.from_scores(tokens, scores)) == pytest.approx(
        {A: 0.25, B: 0.75}
    )
    # A model for which no token is possible leaves the choice open.
    nothing = np.array([-np.inf, -np.inf])
    assert shares(TokenDistribution.from_scores(tokens, nothing)) == {A: 0.5, B: 0.5}


def test_a_draw_takes_each_token_as_often_as_its_share_says() -> None:
    drawn = Counter(distribution(a=0.5, b=0.0, c=0.5).draw((k + 0.5) / 1000) for k in range(1000))
    assert drawn == {A: 500, C: 500}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(any), st.floats(0, 1))
def test_a_draw_is_a_token_that_can_be_drawn(weights: list[float], uniform: float) -> None:
    tokens = np.arange(len(weights), dtype=np.int64)
    made = TokenDistribution(tokens, np.array(weights))
    if 0 < uniform < 1:
        assert made.probability(made.draw(uniform)) > 0


def test_entropy_is_in_nats() -> None:
    assert distribution(a=1, b=1, c=1, d=1).entropy() == pytest.approx(np.log(4))
    assert distribution(a=1, b=0).entropy() == 0.0
