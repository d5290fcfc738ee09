"""The token that a model thinks likeliest of those that a mask allows."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask import Mask
from guided.runtime.kernel import inlined, kernel
from guided.spec import TokenId

__all__ = ["likeliest_token"]

_BITS: Final = 32
_NOWHERE: Final = -1
_LOWEST: Final = np.int32(-(2**31))
_HIGHEST: Final = np.int32(2**31 - 1)
_INFINITY: Final = np.int32(0x7F800000)
_MINUS_INFINITY: Final = np.int32(-0x7F800001)
"""The ranks of both infinities; those of what is not a number are beyond."""


def likeliest_token(logits: NDArray[np.float32], mask: Mask) -> TokenId | None:
    """The allowed token of the largest logit (``[vocab]``), of equal ones the first.

    Tokens behind the logits are not allowed. ``None`` where no token is, where one is infinitely
    likely or not a number, and where the largest is zero, of which there are two. Logits that are
    not allowed are not read.
    """
    token = _find(logits.view(np.int32), mask)
    return None if token == _NOWHERE else TokenId(token)


@inlined
def _rank(bits):  # type: ignore[no-untyped-def]
    """The bits of a float as an integer that is the larger the larger the float is."""
    return np.int32(bits ^ ((bits >> np.int32(31)) & _HIGHEST))


@kernel
def _find(bits, mask):  # type: ignore[no-untyped-def]
    """The place of the largest of the floats; as integers sixteen are compared at once."""
    best, least, best_place = _LOWEST, _HIGHEST, _NOWHERE
    whole = len(bits) // _BITS
    for place in range(min(len(mask), (len(bits) + _BITS - 1) // _BITS)):
        word = mask[place]
        if place == whole:
            # What is allowed behind the logits has none.
            word = np.int32(word & ((1 << len(bits) % _BITS) - 1))
        if word == 0:
            continue
        highest, lowest = _LOWEST, _HIGHEST
        for bit in range(_BITS):
            # The last word may be longer than the logits.
            at = place * _BITS + bit if place < whole else min(place * _BITS + bit, len(bits) - 1)
            rank = _rank(bits[at])
            is_allowed = (word >> np.int32(bit)) & np.int32(1) != 0
            highest = max(highest, rank if is_allowed else _LOWEST)
            lowest = min(lowest, rank if is_allowed else _HIGHEST)
        least = min(least, lowest)
        if highest > best:
            best, best_place = highest, place
    if best_place == _NOWHERE or best >= _INFINITY or least < _MINUS_INFINITY or best == 0:
        return _NOWHERE
    token = best_place * _BITS
    while not (mask[best_place] >> (token % _BITS) & 1 and _rank(bits[token]) == best):
        token += 1
    return token
