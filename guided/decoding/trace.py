"""The trace of an answer: the tree of each step, what was proposed for it, what was taken.

Nothing is recorded for a request without a trace. See docs/inspect.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafter import DraftBuilder
from guided.decoding.filters import smallest_indices
from guided.decoding.token_distribution import TokenDistribution
from guided.decoding.verify import Acceptance
from guided.errors import LimitExceededError
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId, TokenLogprobs

__all__ = ["GrowingAnswer", "Outcome", "Trace", "TracedBuilder", "TracedProposal", "TracedStep"]


class Outcome(StrEnum):
    """What became of a proposal when it was made."""

    ADDED = "added"
    KNOWN = "in the tree already"
    REFUSED = "not allowed by the grammar"
    ENDING = "ends the answer"
    LEFT_OUT = "does not pay"
    """Also if the constraint is at a limit there."""


class TracedProposal(NamedTuple):
    """A token that a drafter proposed."""

    node: int
    """The node that it follows."""
    token: TokenId
    chance: float
    """The drafter's estimate that the answer takes this path."""
    drafter: str
    kind: str
    """The drafter's name for the kind of proposal; empty if it has none."""
    outcome: Outcome


class TracedBuilder(DraftBuilder):
    """A builder that records every proposal, even one that does not become part of the tree."""

    def __init__(
        self,
        trunk: DraftTree,
        forcing: Forcing,
        *,
        budget: DraftBudget,
        tokens_left: int,
        end_ids: frozenset[TokenId],
    ) -> None:
        super().__init__(trunk, forcing, budget=budget, tokens_left=tokens_left, end_ids=end_ids)
        self.proposals: list[TracedProposal] = []

    def add(
        self, node: int, token: TokenId, chance: float = 1.0, max_following: int | None = None
    ) -> int | None:
        """Draft a token as any builder does, and record it."""
        is_known = self.find(node, token) is not None
        continuation = super().add(node, token, chance, max_following)
        return self._record(node, token, chance, continuation, is_known)

    def draw(
        self,
        node: int,
        token: TokenId,
        distribution: TokenDistribution,
        chance: float = 1.0,
        max_following: int | None = None,
    ) -> int | None:
        """Draft a drawn token as any builder does, and record it."""
        is_known = self.find(node, token) is not None
        continuation = super().draw(node, token, distribution, chance, max_following)
        return self._record(node, token, chance, continuation, is_known)

    def _record(
        self, node: int, token: TokenId, chance: float, continuation: int | None, is_known: bool
    ) -> int | None:
        """Record a proposal after ``node`` and what became of it; returns ``continuation``.

        That is the node to which it led, ``None`` if it was not added; ``is_known`` says that the
        tree had it already.
        """
        if continuation is not None:
            outcome = Outcome.ADDED
        else:
            outcome = Outcome.KNOWN if is_known else self._find_outcome(node, token)
        self.proposals.append(TracedProposal(node, token, chance, self.source, self.kind, outcome))
        return continuation

    def record_logits(
        self,
        node: int,
        logits: NDArray[np.float32],
        chance: float,
        width: int,
    ) -> None:
        """Record the likeliest tokens that a drafter gave up because they are not allowed."""
        allowed = allowed_tokens(self.matcher(node).mask(), len(logits))
        weights = np.exp(logits.astype(np.float64) - float(logits.max()))
        likeliest = smallest_indices(-weights, min(width, len(weights)))
        for token in likeliest[~np.isin(likeliest, allowed)].tolist():
            likely = chance * float(weights[token] / weights.sum())
            self.proposals.append(
                TracedProposal(
                    node, TokenId(token), likely, self.source, self.kind, Outcome.REFUSED
                )
            )

    def _find_outcome(self, node: int, token: TokenId) -> Outcome:
        """Return the outcome of a proposal that was not added and is not in the tree."""
        if token in self._end_ids:
            return Outcome.ENDING
        try:
            is_allowed = self.matcher(node).allows(token)
        except LimitExceededError:
            return Outcome.LEFT_OUT
        return Outcome.LEFT_OUT if is_allowed else Outcome.REFUSED


class TracedStep(NamedTuple):
    """One model call, as an answer saw it."""

    position: int
    """Tokens of the answer up to the end of the tree's trunk."""
    tree: DraftTree
    acceptance: Acceptance
    proposals: tuple[TracedProposal, ...]
    """The proposals for this tree, in their order."""


class GrowingAnswer(Protocol):
    """An answer up to its latest token."""

    def answer_since(self, index: int) -> tuple[TokenId, ...]:
        """Return its tokens from this index on."""
        ...

    def token_logprobs(self, vocabulary: Vocabulary, index: int = 0) -> tuple[TokenLogprobs, ...]:
        """Return the log-probabilities of the same tokens; none if not requested."""
        ...


class Trace:
    """The steps of one request so far, in their order."""

    def __init__(self) -> None:
        self.steps: list[TracedStep] = []
        self.answer: GrowingAnswer | None = None
        """The answer that the steps add to, once it is begun."""

    def record(
        self, position: int, tree: DraftTree, acceptance: Acceptance, builder: DraftBuilder | None
    ) -> None:
        """Record a step; ``builder`` took the proposals, if there were any."""
        proposals: tuple[TracedProposal, ...] = ()
        # Drafts may have been given up for lack of room; then the tree is not the builder's.
        if isinstance(builder, TracedBuilder) and builder.last_node == len(tree) - 1:
            proposals = tuple(builder.proposals)
        self.steps.append(TracedStep(position, tree, acceptance, proposals))
