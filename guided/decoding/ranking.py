"""The first of many by a key, without sorting all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["least"]


def least(keys: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The indices of the ``count`` smallest keys, smallest first, lower index first when equal."""
    if count == 0:
        return np.empty(0, np.int64)
    if count < len(keys):
        edge = np.partition(keys, count - 1)[count - 1]
        # All that equal the edge are candidates; the stable sort then prefers the lower index.
        candidates = np.flatnonzero(keys <= edge)
    else:
        candidates = np.arange(len(keys))
    order = np.argsort(keys[candidates], kind="stable")
    chosen: NDArray[np.int64] = candidates[order][:count]
    return chosen
