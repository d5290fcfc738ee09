"""How one token is chosen: pure functions of logits, mask, sampling, history, seed and position.

The mask comes first, then bias, penalties and bans, the temperature, the filters, and the draw. A
draw adds Gumbel noise to the scores and takes the largest sum, which has the law of the softmax.
The noise of a token is a hash of (seed, position, token), so a request draws the same tokens alone
or in any batch, and a draft tree draws what one-token decoding would.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens, likeliest_token
from guided.decoding.filters import filter_tokens
from guided.decoding.penalties import NO_HISTORY, History, adjust_logits
from guided.errors import ModelError
from guided.spec import Sampling, TokenId

__all__ = [
    "adjusted_tokens",
    "choose_token",
    "gumbel_noise",
    "hashed",
    "noise_stream",
    "scored_tokens",
    "uniform",
]

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
"""The constants of SplitMix64."""
_WORD: Final = 2**64 - 1


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
    the mask after which the answer still fits its budget; only its tokens are chosen. The filters
    look at the whole mask all the same, so that a draw without ``within`` that chooses one of its
    tokens is not changed by it. Where they leave none of these, they look at ``within`` alone.
    """
    if sampling.temperature == 0.0:
        allowed = mask if within is None else within
        return _likeliest(logits, allowed, sampling, position, history)
    tokens, scores = scored_tokens(
        logits, mask, sampling, position=position, history=history, within=within
    )
    if len(tokens) == 1:
        return TokenId(int(tokens[0]))
    noise = gumbel_noise(tokens, seed=seed, position=position)
    return TokenId(int(tokens[(scores + noise).argmax()]))


def _likeliest(
    logits: NDArray[np.float32],
    mask: NDArray[np.int32],
    sampling: Sampling,
    position: int,
    history: History,
) -> TokenId:
    """The greedy choice, which is the likeliest of all: filters are for draws."""
    # The usual one reads the mask in place. Infinities, NaN and a largest logit of zero are left
    # to the code below.
    if not sampling.adjusts_logits:
        likeliest = likeliest_token(logits, mask)
        if likeliest is not None:
            return likeliest
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    # No logit is read, so this holds even where they are not numbers.
    if len(tokens) == 1:
        return TokenId(int(tokens[0]))
    tokens, adjusted = adjusted_tokens(tokens, logits, sampling, position, history)
    return TokenId(int(tokens[adjusted.argmax()]))


def scored_tokens(
    logits: NDArray[np.float32],
    mask: NDArray[np.int32],
    sampling: Sampling,
    *,
    position: int,
    history: History = NO_HISTORY,
    within: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The tokens that may be drawn, ascending, and their scores: logarithms of their weights.

    This is the law of ``choose_token``, whose arguments these are; the temperature is not 0.
    """
    # Without filters a draw from ``within`` is that from the mask wherever that one fits, as the
    # noise is the same. With filters it is not: they would see other tokens.
    if within is not None and not sampling.filters:
        mask, within = within, None
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    # No logit is read, so this holds even where they are not numbers.
    if len(tokens) == 1:
        return tokens, np.zeros(1)
    # In the order that ``Sampling`` documents: bias, penalties and bans, temperature, filters.
    tokens, adjusted = adjusted_tokens(tokens, logits, sampling, position, history)
    scores = _scores(adjusted, sampling.temperature)
    if not sampling.filters:
        return tokens, scores
    kept = filter_tokens(scores, sampling)
    if within is not None:
        fitting = kept[np.isin(tokens[kept], allowed_tokens(within, len(logits)))]
        if not len(fitting):
            return scored_tokens(logits, within, sampling, position=position, history=history)
        kept = fitting
    return tokens[kept], scores[kept]


def adjusted_tokens(
    tokens: NDArray[np.int64],
    logits: NDArray[np.float32],
    sampling: Sampling,
    position: int,
    history: History,
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """The allowed tokens that no ban takes away, with their logits after bias and penalties.

    Raises ``ModelError`` where logits (``[vocab]``) are not numbers.
    """
    allowed = logits[tokens]
    if not allowed.max() < np.inf:  # so too if any is NaN
        raise ModelError(f"the model's logits at answer position {position} are not numbers")
    if sampling.adjusts_logits:
        return adjust_logits(tokens, allowed, sampling, history)
    return tokens, allowed


def _scores(logits: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Logits over the temperature, less the largest, so that a tiny one does not overflow."""
    largest = float(logits.max())
    if largest == -np.inf:
        return np.zeros(len(logits))  # the model thinks nothing possible, so all are equal
    scores: NDArray[np.float64] = (logits.astype(np.float64) - largest) / temperature
    return scores


def gumbel_noise(tokens: NDArray[np.int64], *, seed: int, position: int) -> NDArray[np.float64]:
    """Gumbel noise for each token id: a hash of (seed, position, token), and of nothing else."""
    # Only tokens still in the draw are hashed: a whole vocabulary would take milliseconds.
    stream = noise_stream(seed, position)
    bits = _mix_each(
        (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) + np.uint64(stream)
    )
    # 53 bits, shifted by half a step: strictly between 0 and 1, so both logarithms are finite.
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


def noise_stream(seed: int, position: int) -> int:
    """64 bits from which the noise of each token at a position is hashed."""
    return _mix(_mix(seed) ^ position)


def uniform(seed: int, position: int, purpose: int, number: int = 0) -> float:
    """A random number for one purpose at a position, one of several: a hash, as noise is."""
    # 52 bits, shifted by half a step: strictly between 0 and 1.
    return ((hashed(seed, position, purpose, number) >> 12) + 0.5) * 2.0**-52


def hashed(seed: int, *words: int) -> int:
    """64 bits that depend on every word, and on their order."""
    bits = _mix(seed)
    for word in words:
        bits = _mix(bits ^ word)
    return bits


def _mix(word: int) -> int:
    """A bijection of 64-bit words that spreads every bit (the finaliser of SplitMix64)."""
    word = (word + _GOLDEN) & _WORD
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return word ^ (word >> 31)


def _mix_each(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """``_mix`` of every word, in place; arrays of 64-bit words wrap by themselves."""
    words += np.uint64(_GOLDEN)
    words ^= words >> np.uint64(30)
    words *= np.uint64(_FIRST)
    words ^= words >> np.uint64(27)
    words *= np.uint64(_SECOND)
    words ^= words >> np.uint64(31)
    return words
