"""A distribution over tokens: how likely each of them is to be drawn.

Tokens that cannot be drawn are left out, or have the probability 0. So the distribution of a narrow
mask is small, however large the vocabulary is. Rejection sampling is arithmetic on two
distributions::

    p                 a 0.5  b 0.3  c 0.2
    q                 a 0.8  b 0.2
    p less q          b 0.1  c 0.2            →  b 1/3  c 2/3
    p without a       b 0.3  c 0.2            →  b 0.6  c 0.4
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from guided.spec import TokenId

__all__ = ["TokenDistribution"]


class TokenDistribution:
    """Tokens and their probabilities, which sum to 1; no method changes it."""

    __slots__ = ("probabilities", "tokens")

    def __init__(self, tokens: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """``tokens`` are ascending, and ``weights`` at least zero (both ``[n]``), not all zero."""
        self.tokens = tokens
        self.probabilities: NDArray[np.float64] = weights / weights.sum()

    @classmethod
    def from_scores(
        cls, tokens: NDArray[np.int64], scores: NDArray[np.float64]
    ) -> TokenDistribution:
        """Return the softmax of scores, logarithms of weights up to a constant (``[n]``)."""
        largest = float(scores.max())
        if largest == -np.inf:
            return cls(tokens, np.ones(len(tokens)))  # every score is -inf, so all are equal
        return cls(tokens, np.exp(scores - largest))

    def probability(self, token: TokenId) -> float:
        """Return how likely a token is; 0 for one that is not held."""
        at = int(np.searchsorted(self.tokens, token))
        is_held = at < len(self.tokens) and int(self.tokens[at]) == token
        return float(self.probabilities[at]) if is_held else 0.0

    def without(self, tokens: Sequence[TokenId]) -> TokenDistribution | None:
        """Return the distribution without these tokens, renormalised; ``None`` without others."""
        kept = np.where(np.isin(self.tokens, tokens), 0.0, self.probabilities)
        return TokenDistribution(self.tokens, kept) if kept.any() else None

    def subtract(self, other: TokenDistribution) -> TokenDistribution | None:
        """Return ``max(self - other, 0)``, renormalised; ``None`` if nothing is left."""
        positions = np.minimum(np.searchsorted(self.tokens, other.tokens), len(self.tokens) - 1)
        is_held = self.tokens[positions] == other.tokens
        remaining = self.probabilities.copy()
        remaining[positions[is_held]] -= other.probabilities[is_held]
        remaining = np.maximum(remaining, 0.0)
        return TokenDistribution(self.tokens, remaining) if remaining.any() else None

    def draw(self, uniform: float) -> TokenId:
        """Return the token at ``uniform``, a number from 0 to 1 that each token has a share of."""
        ends = self.probabilities.cumsum()
        # The sum is rounded, so the place is scaled to what the shares really sum to.
        at = int(np.searchsorted(ends, uniform * ends[-1], side="right"))
        return TokenId(int(self.tokens[min(at, len(ends) - 1)]))

    def entropy(self) -> float:
        """Return the mean surprise, in nats."""
        held = self.probabilities[self.probabilities > 0]
        return float(-(held * np.log(held)).sum())
