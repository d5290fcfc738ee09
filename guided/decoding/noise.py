"""Noise for a draw: a hash of (seed, position, token), so it depends on nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["gumbel_noise"]


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
