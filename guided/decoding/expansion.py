"""How a drafter with logits of its own proposes: the likeliest legal tokens after a node.

A draft model and heads on hidden states both give logits for the token after a node. ``Expansion``
masks them by the grammar, applies the request's sampling, and drafts what is then likeliest::

    logits ─▶ mask ─▶ bias, temperature, filters ─▶ order ─▶ builder.add, best first
                                                    greedy: by logit
                                                    drawn: by score plus the noise of the position

The noise is the one that the verifier draws with, so where both models agree on the scores they
choose the same token (coupled draws).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.drafter import DraftBuilder, DraftContext, Verified
from guided.decoding.filters import filter_tokens, least
from guided.decoding.penalties import NO_HISTORY
from guided.decoding.sampling import adjusted_tokens, gumbel_noise
from guided.errors import LimitExceededError
from guided.spec import TokenId

__all__ = ["BINS", "Expansion", "ProposalKind", "ProposalRates", "assumed_rates"]

BINS: Final = 10
"""Confidence is told in so many equal steps."""
_WIDEST: Final = 8
"""Tokens that are drafted after one node, at most."""

ProposalKind: TypeAlias = tuple[int, int]
"""The rank of a token among those proposed after a node, and the bin of its probability."""
ProposalRates: TypeAlias = AcceptanceRates[ProposalKind]
"""How often proposals were right, of all sequences of one drafter together."""


def assumed_rates() -> Mapping[ProposalKind, float]:
    """Where rates start from: a drafter that is as sure as it should be."""
    return {(rank, bin_): (bin_ + 0.5) / BINS for rank in range(_WIDEST) for bin_ in range(BINS)}


class Expansion:
    """The proposals of one drafter for one sequence, in the tree that is drafted now."""

    def __init__(self, context: DraftContext, rates: ProposalRates) -> None:
        self._context = context
        self._rates = rates
        self._proposed: dict[tuple[int, TokenId], ProposalKind] = {}

    def begin(self) -> None:
        """Begin a new tree."""
        self._proposed.clear()

    def expand(
        self,
        builder: DraftBuilder,
        node: int,
        logits: NDArray[np.float32],
        chance: float,
        width: int,
    ) -> list[tuple[int, float]]:
        """Draft up to ``width`` tokens after ``node``, where they pay.

        ``logits`` (``[vocabulary]``) are for the token after the node, which the answer reaches
        with this ``chance``. Returns the nodes from which to continue, each with its chance.
        """
        matcher = builder.matcher(node)
        if matcher.is_complete or not builder.pays(1, chance):
            return []
        try:
            tokens = allowed_tokens(matcher.mask(), len(logits))
        except LimitExceededError:
            return []  # it is for the choice at this node to close the answer
        builder.masked(node, tokens, logits, chance, width)
        found = []
        for rank, (token, bin_) in enumerate(self._best(builder, node, tokens, logits, width)):
            kind = (rank, bin_)
            likely = chance * self._rates.rate(kind)
            tip = builder.add(node, token, likely)
            if tip is None:
                tip = builder.find(node, token)  # another drafter may have been first
            if tip is not None:
                self._proposed[node, token] = kind
                found.append((tip, likely))
        return found

    def learn(self, verified: Verified) -> None:
        """Note which proposals of the latest tree the model agreed with."""
        if verified.tree.trunk == len(verified.tree):
            return
        self._rates.pass_step()
        judged, taken = verified.judged, verified.taken
        for (node, token), kind in self._proposed.items():
            if node in judged:
                self._rates.add(kind, 1.0, is_hit=(node, token) in taken)

    def _best(
        self,
        builder: DraftBuilder,
        node: int,
        tokens: NDArray[np.int64],
        logits: NDArray[np.float32],
        width: int,
    ) -> list[tuple[TokenId, int]]:
        """The tokens to propose, best first, each with the bin of its probability."""
        chooser = self._context.chooser
        sampling, position = chooser.sampling, chooser.max_tokens - builder.left(node)
        tokens, adjusted = adjusted_tokens(tokens, logits, sampling, position, NO_HISTORY)
        is_greedy = sampling.temperature == 0.0
        scores = adjusted.astype(np.float64) - float(adjusted.max())
        if not is_greedy:
            scores /= sampling.temperature
            if sampling.filters:
                kept = filter_tokens(scores, sampling)
                tokens, scores = tokens[kept], scores[kept]
        weights = np.exp(scores)
        order = scores
        if not is_greedy:
            order = scores + gumbel_noise(tokens, seed=chooser.seed, position=position)
        best = least(-order, min(width, _WIDEST, len(order)))
        bins = np.minimum((weights[best] / weights.sum() * BINS).astype(np.int64), BINS - 1)
        return [
            (TokenId(token), bin_)
            for token, bin_ in zip(tokens[best].tolist(), bins.tolist(), strict=True)
        ]
