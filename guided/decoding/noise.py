"""Noise for a draw: a hash of (seed, position, token), so it depends on nothing else."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["gumbel_noise"]


def gumbel_noise(tokens: NDArray[np.int64], *, seed: int, position: int) -> NDArray[np.float64]:
    """Gumbel noise for each token id, the same for the same (seed, position, token)."""
    stream = _mix(_mix(seed) ^ position)
    bits = _mix_each(
        (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) + np.uint64(stream)
    )
    # 53 bits, shifted by half a step: strictly between 0 and 1, so both logarithms are finite.
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_WORD: Final = 2**64 - 1


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
