"""How a drafter with logits of its own proposes: tokens that are likely, or drawn, after a node.

Draft models and heads on hidden states both give logits for the token after a node. ``Expansion``
masks them by the grammar, applies the request's sampling, and proposes as its verification
requires::

    logits ─▶ mask ─▶ bias, temperature, filters ─▶ order ─▶ builder, best first
                                                    greedy, typical: by score
                                                    coupled: by score plus the noise of the position
                                                    rejection: drawn, with noise of its own

*Coupled*: the noise is the one that the verifier draws with, so if both models agree on the
scores they choose the same token. *Rejection*: tokens are drawn one after the other, none twice,
and the builder keeps the distribution of each draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.drafter import DraftBuilder, DraftContext, VerifiedStep
from guided.decoding.filters import smallest_indices
from guided.decoding.judged_proposals import JudgedProposals
from guided.decoding.penalties import NO_HISTORY
from guided.decoding.sampling import (
    adjust_tokens,
    gumbel_noise,
    hash_words,
    score_tokens,
    uniform,
)
from guided.decoding.token_distribution import TokenDistribution
from guided.errors import LimitExceededError
from guided.spec import TokenId, Verification

__all__ = ["BINS", "Expansion", "ProposalKind", "ProposalRates", "assumed_rates"]

BINS: Final = 10
"""The number of equal bins of confidence."""
_MAX_WIDTH: Final = 8
"""The most tokens that are drafted after one node."""

_MAX_DRAWN_FROM: Final = 4096
"""The most tokens to draw from, the likeliest: a node's distribution is kept until verification."""
_DRAFT_STREAM: Final = 0xA4093822299F31D0
"""Separates the noise of drafts from all other noise of a seed; digits of pi."""
_DRAWN_RATE: Final = 0.7
"""The share of draws assumed to be accepted if all before them were refused."""

ProposalKind: TypeAlias = tuple[int, int]
"""The rank of a token among those proposed after a node, and the bin of its probability.

Ranks of drawn tokens follow those of chosen ones, because a drawn token is accepted the more often
the more its distribution is like the model's, however likely the token is.
"""
ProposalRates: TypeAlias = AcceptanceRates[ProposalKind]
"""How often proposals were right, over all sequences of one drafter."""


def assumed_rates() -> Mapping[ProposalKind, float]:
    """Return the rates to start from: a drafter that is as sure as it should be."""
    ranks, bins = range(_MAX_WIDTH), range(BINS)
    chosen = {(rank, bin_): (bin_ + 0.5) / BINS for rank in ranks for bin_ in bins}
    drawn = {
        (_MAX_WIDTH + rank, bin_): _DRAWN_RATE * (1 - _DRAWN_RATE) ** rank
        for rank in ranks
        for bin_ in bins
    }
    return chosen | drawn


class Expansion:
    """The proposals of one drafter for one sequence, in the tree that is drafted now."""

    def __init__(self, context: DraftContext, rates: ProposalRates) -> None:
        self._chooser = context.chooser
        self._rates = rates
        self._proposed = JudgedProposals[ProposalKind](rates)

    def begin(self) -> None:
        """Begin a new tree: forget the proposals for the one before."""
        self._proposed.clear()

    def expand(
        self,
        builder: DraftBuilder,
        node: int,
        logits: NDArray[np.float32],
        chance: float,
        width: int,
        max_following: int | None = None,
    ) -> list[tuple[int, float]]:
        """Draft up to ``width`` tokens after ``node``, where they pay.

        ``logits`` (``[vocabulary]``) are for the token after the node. ``chance`` is how likely the
        answer reaches the node. At most ``max_following`` more are drafted after each token, if it
        is given. Returns up to ``width`` nodes from which to continue, those after a token and the
        run that it forces, each with its chance. Where tokens are drawn, each drafter expands a
        node once.
        """
        matcher = builder.matcher(node)
        if matcher.is_complete or not builder.pays(1, chance, max_following):
            return []
        position = self._position(builder, node)
        try:
            tokens, scores = self._score_tokens(logits, matcher.mask(), position)
        except LimitExceededError:
            return []  # choosing at this node will meet the same limit, and end the answer
        builder.record_logits(node, logits, chance, width)
        if self._chooser.rule is Verification.REJECTION:
            return self._draw(builder, node, tokens, scores, chance, width, max_following)
        order = scores
        if self._chooser.rule is Verification.COUPLED and not self._is_greedy:
            order = scores + gumbel_noise(tokens, seed=self._chooser.seed, position=position)
        probabilities = TokenDistribution.from_scores(tokens, scores).probabilities
        continued = []
        best = smallest_indices(-order, min(width, _MAX_WIDTH, len(order)))
        for rank, at in enumerate(best.tolist()):
            token = TokenId(int(tokens[at]))
            kind = (rank, _bin(float(probabilities[at])))
            new_chance = chance * self._rates.rate(kind)
            continuation = builder.add(node, token, new_chance, max_following)
            if continuation is None:
                # Another drafter may have proposed it first.
                continuation = builder.find(node, token)
            if continuation is not None:
                self._proposed.record(node, token, kind)
                continued.append((continuation, new_chance))
        return continued

    def learn(self, verified: VerifiedStep) -> None:
        """Record which proposals of the latest tree the model agreed with."""
        tree = verified.tree
        # All sequences share the rates, so steps without drafts do not age them.
        if tree.trunk_length < len(tree) or tree.draws:
            self._rates.decay()
        self._proposed.learn(verified)

    @property
    def _is_greedy(self) -> bool:
        """Whether the answer takes the best token each time, so that nothing is drawn."""
        return self._chooser.sampling.temperature == 0.0

    def _position(self, builder: DraftBuilder, node: int) -> int:
        """Return how many tokens of the answer come before the one after a node."""
        return self._chooser.max_tokens - builder.tokens_left(node)

    def _score_tokens(
        self, logits: NDArray[np.float32], mask: NDArray[np.int32], position: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the tokens that may be proposed, ascending, and the logarithms of their weights.

        ``mask`` has a bit for each token, ``position`` is as for ``_position``. Raises
        ``ModelError`` if logits are not numbers.
        """
        sampling = self._chooser.sampling
        if not self._is_greedy:
            return score_tokens(logits, mask, sampling, position=position)
        tokens = allowed_tokens(mask, len(logits))
        tokens, adjusted = adjust_tokens(tokens, logits, sampling, position, NO_HISTORY)
        return tokens, adjusted.astype(np.float64)

    def _draw(
        self,
        builder: DraftBuilder,
        node: int,
        tokens: NDArray[np.int64],
        scores: NDArray[np.float64],
        chance: float,
        width: int,
        max_following: int | None,
    ) -> list[tuple[int, float]]:
        """Draw tokens not proposed after ``node`` yet, each from what the draws before it left.

        ``tokens`` and ``scores`` are those of ``_score_tokens``; the rest is as in ``expand``.
        """
        if len(tokens) > _MAX_DRAWN_FROM:
            kept = np.sort(smallest_indices(-scores, _MAX_DRAWN_FROM))
            tokens, scores = tokens[kept], scores[kept]
        whole = TokenDistribution.from_scores(tokens, scores)
        proposed = builder.proposed_tokens(node)
        continued = self._adopt_proposals(builder, node, whole, proposed, chance, width)
        distribution = whole.without(proposed) if proposed else whole
        # Never the same noise twice: nodes have their places in the tree, trees begin at different
        # positions, and a later drafter at the same node finds more tokens proposed.
        noise = hash_words(
            self._chooser.seed,
            _DRAFT_STREAM,
            self._position(builder, builder.root),
            node,
            len(proposed),
        )
        for rank in range(min(width, _MAX_WIDTH) - len(continued)):
            if distribution is None:
                break
            token = distribution.draw(uniform(noise, rank, _DRAFT_STREAM))
            kind = (_MAX_WIDTH + rank, _bin(distribution.probability(token)))
            new_chance = chance * self._rates.rate(kind)
            continuation = builder.draw(node, token, distribution, new_chance, max_following)
            self._proposed.record(node, token, kind)
            if continuation is not None:
                continued.append((continuation, new_chance))
            distribution = distribution.without([token])
        return continued

    def _adopt_proposals(
        self,
        builder: DraftBuilder,
        node: int,
        distribution: TokenDistribution,
        proposed: list[TokenId],
        chance: float,
        width: int,
    ) -> list[tuple[int, float]]:
        """Return those tokens of other drafters after ``node`` from which this one continues.

        As in ``expand``: nodes, each with its chance, at most ``width``. Their tokens have at least
        the probability 1 / BINS in ``distribution``, the one before any draw, and are recorded with
        the ranks of chosen tokens: they were not drawn from it.
        """
        continued: list[tuple[int, float]] = []
        limit = min(width, _MAX_WIDTH)
        for token in proposed:
            continuation, probability = builder.find(node, token), distribution.probability(token)
            if continuation is not None and _bin(probability) > 0 and len(continued) < limit:
                kind = (len(continued), _bin(probability))
                self._proposed.record(node, token, kind)
                continued.append((continuation, chance * self._rates.rate(kind)))
        return continued


def _bin(probability: float) -> int:
    """Return the number of the bin that a probability lies in, from 0 on."""
    return min(int(probability * BINS), BINS - 1)
