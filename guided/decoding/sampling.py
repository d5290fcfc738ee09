"""The choice of one token: pure functions of logits, mask, sampling, history, seed and position.

The mask comes first, then bias, penalties and bans, the temperature, the filters, and the draw. A
draw adds Gumbel noise to the scores and takes the largest sum: so it is drawn from the softmax.
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
    "adjust_tokens",
    "choose_token",
    "gumbel_noise",
    "hash_words",
    "noise_stream",
    "score_tokens",
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
    """Choose a token from ``logits`` (one row, ``[vocab]``) among those in the packed mask.

    ``history`` is read only if ``sampling.reads_history``. ``within`` is the part of the mask
    after which the answer still fits its budget; only its tokens are chosen. The filters still see
    the whole mask, so that ``within`` does not change a draw whose token lies in it. If the filters
    leave none of its tokens, they see ``within`` alone.
    """
    if sampling.temperature == 0.0:
        allowed = mask if within is None else within
        return _choose_greedily(logits, allowed, sampling, position, history)
    tokens, scores = score_tokens(
        logits, mask, sampling, position=position, history=history, within=within
    )
    if len(tokens) == 1:
        return TokenId(int(tokens[0]))
    noise = gumbel_noise(tokens, seed=seed, position=position)
    return TokenId(int(tokens[(scores + noise).argmax()]))


def _choose_greedily(
    logits: NDArray[np.float32],
    mask: NDArray[np.int32],
    sampling: Sampling,
    position: int,
    history: History,
) -> TokenId:
    """Make the greedy choice, the likeliest token of all: filters are for draws."""
    # The usual case reads the mask in place. Infinities, NaN and a largest logit of zero are left
    # to the code below.
    if not sampling.adjusts_logits:
        likeliest = likeliest_token(logits, mask)
        if likeliest is not None:
            return likeliest
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    # No logit is read, so this holds even if they are not numbers.
    if len(tokens) == 1:
        return TokenId(int(tokens[0]))
    tokens, adjusted = adjust_tokens(tokens, logits, sampling, position, history)
    return TokenId(int(tokens[adjusted.argmax()]))


def score_tokens(
    logits: NDArray[np.float32],
    mask: NDArray[np.int32],
    sampling: Sampling,
    *,
    position: int,
    history: History = NO_HISTORY,
    within: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the tokens that may be drawn, ascending, and their scores: logarithms of weights.

    They are those that ``choose_token`` draws from with these arguments; the temperature is not 0.
    """
    # Without filters a draw from ``within`` equals that from the mask wherever that one fits,
    # because the noise is the same. With filters it does not: they would see other tokens.
    if within is not None and not sampling.filters:
        mask, within = within, None
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    # No logit is read, so this holds even if they are not numbers.
    if len(tokens) == 1:
        return tokens, np.zeros(1)
    # In the order that ``Sampling`` documents: bias, penalties and bans, temperature, filters.
    tokens, adjusted = adjust_tokens(tokens, logits, sampling, position, history)
    scores = _scores(adjusted, sampling.temperature)
    if not sampling.filters:
        return tokens, scores
    kept = filter_tokens(scores, sampling)
    if within is not None:
        fitting = kept[np.isin(tokens[kept], allowed_tokens(within, len(logits)))]
        if not len(fitting):
            return score_tokens(logits, within, sampling, position=position, history=history)
        kept = fitting
    return tokens[kept], scores[kept]


def adjust_tokens(
    tokens: NDArray[np.int64],
    logits: NDArray[np.float32],
    sampling: Sampling,
    position: int,
    history: History,
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Return the allowed tokens that no ban removes, with their logits after bias and penalties.

    Raises ``ModelError`` if logits (``[vocab]``) are not numbers.
    """
    allowed = logits[tokens]
    if not allowed.max() < np.inf:  # also true if any is NaN
        raise ModelError(f"the model's logits at answer position {position} are not numbers")
    if sampling.adjusts_logits:
        return adjust_logits(tokens, allowed, sampling, history)
    return tokens, allowed


def _scores(logits: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Divide logits, less the largest, by the temperature; a tiny one leaves only the largest."""
    largest = float(logits.max())
    if largest == -np.inf:
        return np.zeros(len(logits))  # every logit is -inf, so all are equal
    with np.errstate(over="ignore"):
        scores: NDArray[np.float64] = (logits.astype(np.float64) - largest) / temperature
    return scores


def gumbel_noise(tokens: NDArray[np.int64], *, seed: int, position: int) -> NDArray[np.float64]:
    """Return Gumbel noise for each token id: a hash of only (seed, position, token)."""
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
    """Return 64 bits from which the noise of each token at a position is hashed."""
    return _mix(_mix(seed) ^ position)


def uniform(seed: int, position: int, purpose: int, number: int = 0) -> float:
    """Return a random number for one purpose at a position: a hash, like the noise."""
    # 52 bits, shifted by half a step: strictly between 0 and 1.
    return ((hash_words(seed, position, purpose, number) >> 12) + 0.5) * 2.0**-52


def hash_words(seed: int, *words: int) -> int:
    """Return 64 bits that depend on every word, and on their order."""
    bits = _mix(seed)
    for word in words:
        bits = _mix(bits ^ word)
    return bits


def _mix(word: int) -> int:
    """Map 64-bit words one to one, spreading every bit (the finaliser of SplitMix64)."""
    word = (word + _GOLDEN) & _WORD
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return word ^ (word >> 31)


def _mix_each(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply ``_mix`` to every word, in place; arrays of 64-bit words wrap around anyway."""
    words += np.uint64(_GOLDEN)
    words ^= words >> np.uint64(30)
    words *= np.uint64(_FIRST)
    words ^= words >> np.uint64(27)
    words *= np.uint64(_SECOND)
    words ^= words >> np.uint64(31)
    return words
