"""How likely a chosen token was, by the model alone and among the allowed tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens
from guided.decoding.filters import smallest_indices
from guided.masks.vocabulary import Vocabulary
from guided.spec import Alternative, TokenId, TokenLogprobs

__all__ = ["ChoiceLogprobs", "choice_logprobs", "forced_logprobs", "mean_logprob"]


@dataclass(frozen=True, slots=True)
class ChoiceLogprobs:
    """Natural logarithms of probabilities at one choice."""

    raw: float
    """The token's, by the softmax over the whole vocabulary."""
    masked: float
    """The token's, by the softmax over the mask."""
    is_only: bool
    """Whether the mask held no other token."""
    top: tuple[tuple[TokenId, float, float], ...]
    """The likeliest allowed tokens with their ``raw`` and ``masked``, likeliest first."""

    def with_texts(self, token: TokenId, vocabulary: Vocabulary) -> TokenLogprobs:
        """Return the same with the texts of the tokens, in the form that the caller gets."""
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
    """Return the entry of a token that the model did not choose."""
    return TokenLogprobs(token, vocabulary.decode([token]), raw=None, masked=None)


def choice_logprobs(
    logits: NDArray[np.float32], mask: NDArray[np.int32], token: TokenId, *, top: int
) -> ChoiceLogprobs:
    """Look up ``token``, and the ``top`` likeliest allowed ones, in a row of logits (``[vocab]``).

    Temperature, bias, penalties and filters do not affect the result.
    """
    # In float64: a float32 sum over a vocabulary loses digits that callers see.
    tokens = allowed_tokens(mask, len(logits))
    allowed = logits[tokens].astype(np.float64)
    everything = _log_sum_exp(logits.astype(np.float64))
    within = _log_sum_exp(allowed)
    return ChoiceLogprobs(
        raw=float(logits[token]) - everything,
        masked=float(logits[token]) - within,
        is_only=len(tokens) == 1,
        top=tuple(
            (TokenId(int(tokens[i])), float(allowed[i] - everything), float(allowed[i] - within))
            for i in smallest_indices(-allowed, top)
        ),
    )


def _log_sum_exp(logits: NDArray[np.float64]) -> float:
    """Return the logarithm of the sum of exponentials."""
    largest = logits.max()
    if largest == -np.inf:
        return 0.0  # every logit is -inf, so every logarithm stays infinite
    return float(largest + np.log(np.exp(logits - largest).sum()))


def mean_logprob(choices: Iterable[ChoiceLogprobs]) -> float:
    """Return the mean raw log-probability of the tokens that the model chose; 0 if it chose none.

    A mean, because a sum would favour short answers. Raw, because the masked one calls a token
    certain that the mask all but forced on the model. A token that was the only one allowed is no
    choice, whether it was forced or not, so forced tokens do not change the score.
    """
    chosen = [choice.raw for choice in choices if not choice.is_only]
    return sum(chosen) / len(chosen) if chosen else 0.0
