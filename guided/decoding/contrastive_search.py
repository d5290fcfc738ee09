"""Contrastive search: a likely token whose hidden state is unlike those of the tokens before it.

Of the k likeliest allowed tokens, the *candidate tokens*, it takes the one with the largest

    (1 - alpha) * probability - alpha * (largest cosine similarity with a token before it)

(Su et al., arXiv:2202.06417). The probability is relative to the allowed tokens: where a mask
leaves little of the model's own, likeness would decide alone. See docs/contrastive-search.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.choice import Chooser, ChosenToken, FinalCompletion
from guided.decoding.filters import smallest_indices
from guided.decoding.penalties import History
from guided.decoding.sampling import adjust_tokens
from guided.decoding.token_distribution import TokenDistribution
from guided.errors import LimitExceededError, ModelError
from guided.spec import TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["CandidateToken", "SeenStates", "find_candidate_tokens", "pick_candidate_token"]

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CandidateToken:
    """One of the tokens that are tried at a position."""

    choice: ChosenToken
    probability: float
    """Relative to the allowed tokens, after bias and penalties."""


class SeenStates:
    """The directions of the hidden states of a text, in the order of its tokens."""

    def __init__(self) -> None:
        self._rows: Rows | None = None  # [room, size]; the rows in use have length 1
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, states: Rows) -> None:
        """Add the states (``[tokens, size]``) of the next tokens."""
        count = self._count + len(states)
        # Doubled when full, so that a long text is copied only a few times.
        if self._rows is None or count > len(self._rows):
            rows = np.empty((2 * count, states.shape[1]), np.float32)
            if self._rows is not None:
                rows[: self._count] = self._rows[: self._count]
            self._rows = rows
        self._rows[self._count : count] = _normalise(states)
        self._count = count

    def max_similarity(self, states: Rows) -> NDArray[np.float64]:
        """Return each state's (``[tokens, size]``) largest cosine similarity with the text's."""
        assert self._rows is not None, "there is no text to be like"
        cosines = _normalise(states) @ self._rows[: self._count].T  # [tokens, seen]
        likeness: NDArray[np.float64] = cosines.max(axis=1).astype(np.float64)
        return likeness


def find_candidate_tokens(
    logits: Rows, matcher: Matcher, position: int, history: History, chooser: Chooser
) -> tuple[CandidateToken, ...] | FinalCompletion:
    """Return the likeliest tokens at ``position`` of an answer that fits so far, likeliest first.

    ``logits`` are one row, ``[vocab]``. If one of the tokens would leave no room for an end, the
    search is repeated among those that fit. Returns ``FinalCompletion`` if no token leaves room for
    an end, or if the constraint meets a limit.
    """
    try:
        # First without the budget, as in ``Chooser``: it matters only near its end.
        found = _find_likeliest(logits, matcher, matcher.mask(), position, history, chooser)
        if all(_can_complete(chooser, one, position) for one in found):
            return found
        # After some of them the answer could not end in time: search among tokens that fit.
        within = matcher.mask_within(chooser.remaining(position))
        found = _find_likeliest(logits, matcher, within, position, history, chooser)
        # A completion may turn out longer than before; see ``Chooser``.
        fitting = [one for one in found if _can_complete(chooser, one, position)]
    except LimitExceededError:
        fitting = []
    if not fitting:
        return FinalCompletion(matcher.shortest_completion())
    return tuple(replace(one, choice=one.choice._replace(budget_limited=True)) for one in fitting)


def pick_candidate_token(
    candidates: Sequence[CandidateToken], similarity: NDArray[np.float64], alpha: float
) -> int:
    """Return the index of the one to take; of equals the likeliest."""
    # ``argmax`` takes the first of equals, and candidates come likeliest first.
    probabilities = np.array([one.probability for one in candidates])
    return int(((1 - alpha) * probabilities - alpha * similarity).argmax())


def _find_likeliest(
    logits: Rows,
    matcher: Matcher,
    mask: NDArray[np.int32],
    position: int,
    history: History,
    chooser: Chooser,
) -> tuple[CandidateToken, ...]:
    """Return the likeliest tokens of a mask, likeliest first, whether they fit or not."""
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    tokens, adjusted = adjust_tokens(tokens, logits, chooser.sampling, position, history)
    # Among the allowed tokens: under a mask the model's own probabilities may all be tiny.
    scores = adjusted.astype(np.float64)
    probabilities = TokenDistribution.from_scores(tokens, scores).probabilities
    count = min(chooser.sampling.num_candidate_tokens, len(tokens))
    # By score, as the probabilities of several tokens may be rounded to 0.
    likeliest = smallest_indices(-scores, count)
    return tuple(
        CandidateToken(
            chooser.make_choice(logits, mask, TokenId(int(tokens[index])), matcher),
            float(probabilities[index]),
        )
        for index in likeliest
    )


def _can_complete(chooser: Chooser, candidate: CandidateToken, position: int) -> bool:
    after = candidate.choice.matcher
    return after is None or chooser.can_complete(after, position + 1)


def _normalise(states: Rows) -> Rows:
    """Return the states, scaled to length 1."""
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ModelError("the model's hidden states are not numbers")
    # A state without length has no direction, and is similar to nothing.
    directions: Rows = np.divide(states, np.where(lengths > 0, lengths, np.float32(1)))
    return directions
