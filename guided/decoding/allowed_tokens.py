"""The tokens that a mask allows: all of them, all of a mask with few, and the likeliest one.

The kernels read a packed mask as it lies in memory, so no array of the vocabulary's size is made::

    word      0                    1
    bit       0 1 2 ... 31         0 1 ...          token = 32 * word + bit
    mask      0 1 1 ...  0         0 0 ...          allows tokens 1, 2, ...
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask import Mask
from guided.runtime.kernel import inlined, kernel
from guided.spec import TokenId

__all__ = ["allowed_tokens", "few_tokens", "likeliest_token"]

_BITS: Final = 32
_NOWHERE: Final = -1
_LOWEST: Final = np.int32(-(2**31))
_HIGHEST: Final = np.int32(2**31 - 1)
_INFINITY: Final = np.int32(0x7F800000)
_MINUS_INFINITY: Final = np.int32(-0x7F800001)
"""The ranks of both infinities; the ranks of NaN are beyond them."""


def allowed_tokens(mask: Mask, vocabulary_size: int) -> NDArray[np.int64]:
    """Return the token ids in a packed mask, ascending."""
    bits = np.unpackbits(mask.view(np.uint8), count=vocabulary_size, bitorder="little")
    return np.flatnonzero(bits.view(np.bool_))


def likeliest_token(logits: NDArray[np.float32], mask: Mask) -> TokenId | None:
    """Return the allowed token with the largest logit (``[vocab]``); of equal ones the first.

    Tokens beyond the logits are not allowed. ``None`` if no token is allowed, if a logit is
    infinite or not a number, or if the largest is zero, of which there are two. Logits of tokens
    that are not allowed are not read.
    """
    token = _find_largest(logits.view(np.int32), mask)
    return None if token == _NOWHERE else TokenId(token)


@inlined
def _rank(bits):  # type: ignore[no-untyped-def]
    """Return the bits of a float as an integer that grows with the float."""
    return np.int32(bits ^ ((bits >> np.int32(31)) & _HIGHEST))


@kernel
def _find_largest(bits, mask):  # type: ignore[no-untyped-def]
    """Return the index of the largest allowed float, or ``_NOWHERE``; ``bits`` are the floats'."""
    # Ranks are compared instead of floats: the comparison of integers has no case for NaN, so the
    # compiler vectorises it.
    best, least, best_index = _LOWEST, _HIGHEST, _NOWHERE
    whole = len(bits) // _BITS
    # A mask may be longer or shorter than the logits: each is rounded up to whole words.
    for index in range(min(len(mask), (len(bits) + _BITS - 1) // _BITS)):
        word = mask[index]
        if index == whole:
            # Bits beyond the logits stand for no token.
            word = np.int32(word & ((1 << len(bits) % _BITS) - 1))
        if word == 0:
            continue
        highest, lowest = _LOWEST, _HIGHEST
        for bit in range(_BITS):
            # The last word may be longer than the logits.
            at = index * _BITS + bit if index < whole else min(index * _BITS + bit, len(bits) - 1)
            rank = _rank(bits[at])
            is_allowed = (word >> np.int32(bit)) & np.int32(1) != 0
            highest = max(highest, rank if is_allowed else _LOWEST)
            lowest = min(lowest, rank if is_allowed else _HIGHEST)
        least = min(least, lowest)
        # Only greater, so the first of equal tokens wins, as with ``argmax``.
        if highest > best:
            best, best_index = highest, index
    # Ranks tell +0 from -0, which are equal floats, so the caller handles a largest logit of zero.
    if best_index == _NOWHERE or best >= _INFINITY or least < _MINUS_INFINITY or best == 0:
        return _NOWHERE
    # The loop above keeps only the word, to need no branch for each bit; here it is searched.
    token = best_index * _BITS
    while not (mask[best_index] >> (token % _BITS) & 1 and _rank(bits[token]) == best):
        token += 1
    return token


def few_tokens(mask: Mask, most: int) -> list[int] | None:
    """Return the tokens that a mask allows, ascending; ``None`` if more than ``most``."""
    found: NDArray[np.int64] = np.empty(most, np.int64)
    count = _collect_few(mask, found)
    return found[:count].tolist() if count <= most else None


@kernel
def _collect_few(mask, found):  # type: ignore[no-untyped-def]
    """Put the tokens into ``found`` and return their number, at most one more than fit."""
    count = 0
    for index in range(len(mask)):
        word = mask[index]
        # Where few tokens are allowed nearly all words are empty.
        if word == 0:
            continue
        for bit in range(_BITS):
            if word >> bit & 1:
                # The caller only needs to know that there are too many.
                if count == len(found):
                    return count + 1
                found[count] = index * _BITS + bit
                count += 1
    return count
