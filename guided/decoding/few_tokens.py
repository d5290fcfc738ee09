"""The tokens of a mask that has few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask import Mask
from guided.runtime.kernel import kernel

__all__ = ["few_tokens"]

_BITS = 32


def few_tokens(mask: Mask, most: int) -> list[int] | None:
    """The tokens that a mask allows, ascending; ``None`` if there are more than so many."""
    found: NDArray[np.int64] = np.empty(most, np.int64)
    count = _find(mask, found)
    return found[:count].tolist() if count <= most else None


@kernel
def _find(mask, found):  # type: ignore[no-untyped-def]
    """Put the tokens into ``found``, and say how many there are, or that there is no room."""
    count = 0
    for place in range(len(mask)):
        word = mask[place]
        if word == 0:
            continue
        for bit in range(_BITS):
            if word >> bit & 1:
                if count == len(found):
                    return count + 1
                found[count] = place * _BITS + bit
                count += 1
    return count
