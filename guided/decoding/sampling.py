"""How one token is chosen: pure functions of logits, mask, sampling, seed and position.

The mask comes first, then the filters, then the draw. A draw adds Gumbel noise to the logits and
takes the largest sum, which has the law of the softmax. The noise of a token is a hash of
(seed, position, token), so a request draws the same tokens alone or in any batch, and a draft
tree draws what one-token decoding would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.errors import ModelError
from guided.spec import Sampling, TokenId

__all__ = ["allowed_tokens", "choose_token", "filter_tokens", "gumbel_noise"]

_HEAD = 1024
"""How many of the likeliest tokens top-p looks at before it sorts all of them."""


def choose_token(
    logits: NDArray[np.float32],
    mask: NDArray[np.int32],
    sampling: Sampling,
    *,
    seed: int,
    position: int,
) -> TokenId:
    """The token chosen from ``logits`` (one row, ``[vocab]``) among those in the packed mask."""
    tokens = allowed_tokens(mask, len(logits))
    assert len(tokens), f"the mask at position {position} is empty"
    if len(tokens) == 1:
        return TokenId(int(tokens[0]))
    allowed = logits[tokens]
    if np.isnan(allowed).any():
        raise ModelError(f"the model's logits at answer position {position} are not numbers")
    if sampling.temperature == 0.0:
        return TokenId(int(tokens[allowed.argmax()]))
    # The largest logit is taken off first: a tiny temperature must not overflow.
    scores = (allowed.astype(np.float64) - float(allowed.max())) / sampling.temperature
    kept = filter_tokens(scores, sampling)
    tokens, scores = tokens[kept], scores[kept]
    noise = gumbel_noise(tokens, seed=seed, position=position)
    return TokenId(int(tokens[(scores + noise).argmax()]))


def allowed_tokens(mask: NDArray[np.int32], vocabulary_size: int) -> NDArray[np.int64]:
    """The token ids in a packed mask, ascending."""
    bits = np.unpackbits(mask.view(np.uint8), count=vocabulary_size, bitorder="little")
    return np.flatnonzero(bits.view(np.bool_))


def filter_tokens(scores: NDArray[np.float64], sampling: Sampling) -> NDArray[np.int64]:
    """The indices that top-k, then top-p, leave; ascending.

    Of equal scores at the edge the lower index stays.
    """
    kept: NDArray[np.int64] = np.arange(len(scores))
    if sampling.top_k is not None and sampling.top_k < len(kept):
        kept = np.sort(_likeliest(scores, sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1.0:
        kept = np.sort(kept[_nucleus(scores[kept], sampling.top_p)])
    return kept


def gumbel_noise(tokens: NDArray[np.int64], *, seed: int, position: int) -> NDArray[np.float64]:
    """Gumbel noise for each token id, the same for the same (seed, position, token)."""
    stream = _mix(_mix(np.uint64(seed)) ^ np.uint64(position))
    bits = _mix(stream + (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))
    # 53 bits, shifted by half a step: strictly between 0 and 1, so both logarithms are finite.
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


_GOLDEN = 0x9E3779B97F4A7C15


def _mix(value: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """A bijection of 64-bit words that spreads every bit (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        word = np.asarray(value, dtype=np.uint64) + np.uint64(_GOLDEN)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))


def _likeliest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The indices of the ``count`` largest scores, largest first, lower index first when equal."""
    if count < len(scores):
        edge = np.partition(scores, len(scores) - count)[len(scores) - count]
        # All that equal the edge are candidates; the stable sort then prefers the lower index.
        candidates = np.flatnonzero(scores >= edge)
    else:
        candidates = np.arange(len(scores))
    order = np.argsort(-scores[candidates], kind="stable")
    likeliest: NDArray[np.int64] = candidates[order][:count]
    return likeliest


def _nucleus(scores: NDArray[np.float64], p: float) -> NDArray[np.int64]:
    """The indices of the least set of largest scores whose probability reaches ``p``."""
    weights = np.exp(scores - scores.max())
    needed = p * weights.sum()
    # Sorting a whole vocabulary takes milliseconds, and the head nearly always is enough.
    for count in (min(_HEAD, len(scores)), len(scores)):
        head = _likeliest(scores, count)
        reached = np.cumsum(weights[head])
        if reached[-1] >= needed:
            return head[: int(np.searchsorted(reached, needed)) + 1]
    return head  # rounding may leave the whole sum a hair below p
