"""How one token is chosen: pure functions of logits, mask, sampling, history, seed and position.

The mask comes first, then bias, penalties and bans, the temperature, the filters, and the draw. A
draw adds Gumbel noise to the scores and takes the largest sum, which has the law of the softmax.
The noise of a token is a hash of (seed, position, token), so a request draws the same tokens alone
or in any batch, and a draft tree draws what one-token decoding would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.decoding.filters import filter_tokens
from guided.decoding.history import NO_HISTORY, History
from guided.decoding.likeliest import likeliest_token
from guided.decoding.noise import gumbel_noise
from guided.decoding.penalties import adjust_logits
from guided.errors import ModelError
from guided.spec import Sampling, TokenId

__all__ = ["adjusted_tokens", "allowed_tokens", "choose_token"]


def choose_token(
    logits: NDArray[np.float32],
    mask: NDArray[np.int32],
    sampling: Sampling,
    *,
    seed: int,
    position: int,
    history: History = NO_HISTORY,
    within: NDArray[np.int32] | None = None,
) -> TokenId:
    """The token chosen from ``logits`` (one row, ``[vocab]``) among those in the packed mask.

    ``history`` is read only where ``sampling.reads_history`` says so. ``within`` is the part of
    the mask behind which the answer fits its budget: the filters look at the whole mask, and of
    what they leave the rest drops out, so that this draw is the one without ``within`` where that
    gives one of them. Where nothing stays, they look at ``within`` alone.
    """
    is_filtered = sampling.temperature != 0.0 and sampling.filters
    if within is not None and not is_filtered:
        mask, within = within, None
    if sampling.temperature == 0.0 and not sampling.adjusts_logits:
        likeliest = likeliest_token(logits, mask)
        if likeliest is not None:
            return likeliest
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    if len(tokens) == 1:
        return TokenId(int(tokens[0]))
    tokens, adjusted = adjusted_tokens(tokens, logits, sampling, position, history)
    if sampling.temperature == 0.0:
        return TokenId(int(tokens[adjusted.argmax()]))
    scores = _scores(adjusted, sampling.temperature)
    if sampling.filters:
        kept = filter_tokens(scores, sampling)
        if within is not None:
            fitting = kept[np.isin(tokens[kept], allowed_tokens(within, len(logits)))]
            if not len(fitting):
                return choose_token(
                    logits, within, sampling, seed=seed, position=position, history=history
                )
            kept = fitting
        tokens, scores = tokens[kept], scores[kept]
    noise = gumbel_noise(tokens, seed=seed, position=position)
    return TokenId(int(tokens[(scores + noise).argmax()]))


def adjusted_tokens(
    tokens: NDArray[np.int64],
    logits: NDArray[np.float32],
    sampling: Sampling,
    position: int,
    history: History,
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """The allowed tokens that no ban takes away, with their logits behind bias and penalties.

    Raises ``ModelError`` where logits (``[vocab]``) are not numbers.
    """
    allowed = logits[tokens]
    if not allowed.max() < np.inf:  # so too if any is NaN
        raise ModelError(f"the model's logits at answer position {position} are not numbers")
    if sampling.adjusts_logits:
        return adjust_logits(tokens, allowed, sampling, history)
    return tokens, allowed


def allowed_tokens(mask: NDArray[np.int32], vocabulary_size: int) -> NDArray[np.int64]:
    """The token ids in a packed mask, ascending."""
    bits = np.unpackbits(mask.view(np.uint8), count=vocabulary_size, bitorder="little")
    return np.flatnonzero(bits.view(np.bool_))


def _scores(logits: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Logits over the temperature, less the largest, so that a tiny one does not overflow."""
    largest = float(logits.max())
    if largest == -np.inf:
        return np.zeros(len(logits))  # the model thinks nothing possible, so all are equal
    scores: NDArray[np.float64] = (logits.astype(np.float64) - largest) / temperature
    return scores
