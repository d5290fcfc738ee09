"""Token masks: one bit per token, packed into words of 32 bits, the lowest bit first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask_kernels import copy_allowed

__all__ = [
    "Mask",
    "allowed",
    "allows",
    "mask_of",
    "only_token",
    "tokens_of",
]

Mask = NDArray[np.int32]
"""int32 ``[ceil(vocabulary / 32)]``: token ``t`` may come next if bit ``t % 32`` of word
``t // 32`` is set."""


def mask_of(vocabulary_size: int, tokens: Iterable[int] | NDArray[np.int64]) -> Mask:
    """Return a mask that allows exactly these tokens.

    The result is fresh memory that the caller may write to. Tokens may come in any order and
    repeat, but each must be one of the vocabulary: this is not checked, and a negative one would
    set another bit.
    """
    bits = np.zeros((vocabulary_size + 31) // 32 * 32, dtype=np.bool_)
    bits[tokens if isinstance(tokens, np.ndarray) else list(tokens)] = True
    return np.packbits(bits, bitorder="little").view(np.int32)


def tokens_of(mask: Mask) -> NDArray[np.int64]:
    """Return the tokens that the mask allows, ascending.

    The two branches return the same; which one is taken matters only for speed.
    """
    # If few words have a bit set, only those are unpacked.
    used = np.flatnonzero(mask)
    if len(used) > len(mask) // 4:
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    places = np.flatnonzero(np.unpackbits(mask[used].view(np.uint8), bitorder="little"))
    tokens: NDArray[np.int64] = used[places >> 5] * 32 + (places & 31)
    return tokens


def allows(mask: Mask, token: int) -> bool:
    """Return whether the mask allows a token."""
    return bool(int(mask[token >> 5]) >> (token & 31) & 1)


def allowed(mask: Mask, tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the tokens that the mask allows among ``tokens``, in their order."""
    found = np.empty_like(tokens)
    kept: NDArray[np.int32] = found[: copy_allowed(mask, tokens, found)]
    return kept


def only_token(mask: Mask) -> int | None:
    """Return the only allowed token, or ``None`` if several or none are allowed.

    The words are read as unsigned, since the highest bit of a word makes an int32 negative.
    """
    words = mask.view(np.uint32)
    used = np.nonzero(words)[0]
    if len(used) != 1:
        return None
    word = int(words[used[0]])
    return None if word & (word - 1) else int(used[0]) * 32 + word.bit_length() - 1
