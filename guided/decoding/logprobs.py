"""How likely a chosen token was, by the model alone and among the allowed tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.decoding.ranking import least
from guided.decoding.sampling import allowed_tokens
from guided.masks.vocabulary import Vocabulary
from guided.spec import Alternative, TokenId, TokenLogprobs

__all__ = ["ChoiceLogprobs", "choice_logprobs", "forced_logprobs"]


@dataclass(frozen=True, slots=True)
class ChoiceLogprobs:
    """Natural logarithms of probabilities at one choice."""

    raw: float
    """Of the token by the softmax over the whole vocabulary."""
    masked: float
    """Of the token by the softmax over the mask."""
    is_only: bool
    """Whether the mask held no other token."""
    top: tuple[tuple[TokenId, float, float], ...]
    """The likeliest allowed tokens with their ``raw`` and ``masked``, likeliest first."""

    def of(self, token: TokenId, vocabulary: Vocabulary) -> TokenLogprobs:
        """The same with texts, for the caller."""
        return TokenLogprobs(
            token=token,
            text=vocabulary.decode([token]),
            raw=self.raw,
            masked=self.masked,
            top=tuple(
                Alternative(other, vocabulary.decode([other]), raw, masked)
                for other, raw, masked in self.top
            ),
        )


def forced_logprobs(token: TokenId, vocabulary: Vocabulary) -> TokenLogprobs:
    """What is known of a token that the model was not asked about."""
    return TokenLogprobs(token, vocabulary.decode([token]), raw=None, masked=None)


def choice_logprobs(
    logits: NDArray[np.float32], mask: NDArray[np.int32], token: TokenId, *, top: int
) -> ChoiceLogprobs:
    """Look up ``token``, and the ``top`` likeliest allowed ones, in a row of logits (``[vocab]``).

    Temperature, bias, penalties and filters have no part in it.
    """
    tokens = allowed_tokens(mask, len(logits))
    allowed = logits[tokens].astype(np.float64)
    everything = _log_sum(logits.astype(np.float64))
    within = _log_sum(allowed)
    return ChoiceLogprobs(
        raw=float(logits[token]) - everything,
        masked=float(logits[token]) - within,
        is_only=len(tokens) == 1,
        top=tuple(
            (TokenId(int(tokens[i])), float(allowed[i] - everything), float(allowed[i] - within))
            for i in least(-allowed, top)
        ),
    )


def _log_sum(logits: NDArray[np.float64]) -> float:
    """The logarithm of the sum of exponentials."""
    largest = logits.max()
    if largest == -np.inf:
        return 0.0  # the model thinks nothing possible, and every logarithm stays infinite
    return float(largest + np.log(np.exp(logits - largest).sum()))
