"""Single bits and words of masks in compiled code.

A mask is int32 ``[words]``: token ``t`` is bit ``t % 32`` of word ``t // 32``::

    base         a mask that many others begin from, never written to
    changes      int32 [changes, 2]: places of words, ascending, and the words there
    base+changes the mask; see ``MaskDelta``
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.runtime.addresses import table_at
from guided.runtime.kernel import inlined, kernel

__all__ = [
    "clear_token",
    "clear_tokens",
    "copy_allowed",
    "fill_rows",
    "fill_words",
    "find_changes",
    "set_token",
    "set_tokens",
    "word_at",
]

_AT_ONCE: Final = 128
"""Words compared at once; mostly few of them differ."""


@inlined
def set_token(token: int, words: NDArray[np.int32]) -> None:
    """Set the bit of a token, which must be one of the mask: compiled code checks no bounds."""
    words[token >> 5] |= np.int32(1) << np.int32(token & 31)


@inlined
def clear_token(token: int, words: NDArray[np.int32]) -> None:
    """Clear the bit of a token, which must be one of the mask."""
    words[token >> 5] &= ~(np.int32(1) << np.int32(token & 31))


@kernel
def set_tokens(tokens: NDArray[np.int32], words: NDArray[np.int32]) -> None:
    """Set the bits of tokens."""
    for token in tokens:
        set_token(token, words)


@kernel
def clear_tokens(tokens: NDArray[np.int32], words: NDArray[np.int32]) -> None:
    """Clear the bits of tokens."""
    for token in tokens:
        clear_token(token, words)


@kernel
def copy_allowed(
    words: NDArray[np.int32], tokens: NDArray[np.int32], found: NDArray[np.int32]
) -> int:
    """Put the tokens that a mask allows into ``found``; returns how many there are.

    Their order is kept. ``found`` must have room for all of ``tokens``; what lies after those that
    were found is left as it was.
    """
    count = 0
    for token in tokens:
        if words[token >> 5] >> (token & 31) & 1:
            found[count] = token
            count += 1
    return count


@kernel
def find_changes(
    words: NDArray[np.int32], base: NDArray[np.int32], changes: NDArray[np.int32]
) -> int:
    """Write the words in which a mask differs from ``base`` to ``changes``; returns how many.

    ``changes`` is int32 ``[words, 2]``: places, ascending, and the words of the mask there.

    ``word_at`` relies on the order of the places. What lies after the changes is left as it was.
    """
    count = 0
    for first in range(0, len(words), _AT_ONCE):
        here, there = words[first : first + _AT_ONCE], base[first : first + _AT_ONCE]
        differing = np.int32(0)
        for place in range(len(here)):  # without an early exit, so that it is vectorised
            differing |= here[place] ^ there[place]
        if differing:
            for place in range(len(here)):
                if here[place] != there[place]:
                    changes[count, 0], changes[count, 1] = first + place, here[place]
                    count += 1
    return count


@kernel
def fill_words(
    base: NDArray[np.int32], changes: NDArray[np.int32], words: NDArray[np.int32]
) -> None:
    """Write the base with its changes to ``words``.

    ``words`` must be as long as ``base``: ``MaskDelta.fill`` checks that, compiled code does not.
    """
    for place in range(len(words)):
        words[place] = base[place]
    for index in range(len(changes)):
        words[changes[index, 0]] = changes[index, 1]


@kernel
def fill_rows(
    records: NDArray[np.int64],
    rows: NDArray[np.int64],
    begin: int,
    num_rows: int,
    pitch: int,
    width: int,
) -> int:
    """Write many masks, each to a row of memory, in one call; returns how many were written.

    ``records``, int64 ``[masks]``, are the addresses that ``MaskDelta.address`` returns. Row ``n``
    begins ``n * pitch`` bytes after the address ``begin`` and has ``width`` words; those beyond the
    mask are cleared. It stops at a mask that has more words, or whose row is not one of the
    ``num_rows``. The caller keeps all arrays alive.
    """
    for index in range(len(records)):
        record = table_at(records[index], 4, None, np.int64)
        words = record[1]
        if words > width or rows[index] < 0 or rows[index] >= num_rows:
            return index
        base = table_at(record[0], words, None, np.int32)
        changes = table_at(record[2], record[3], 2, np.int32)
        row = table_at(begin + rows[index] * pitch, width, None, np.int32)
        for place in range(words):
            row[place] = base[place]
        for place in range(words, width):
            row[place] = 0
        for change in range(len(changes)):
            row[changes[change, 0]] = changes[change, 1]
    return len(records)


@kernel
def word_at(base: NDArray[np.int32], changes: NDArray[np.int32], place: int) -> int:
    """Return one word of the base with its changes, found among the changes by bisection."""
    low, high = 0, len(changes)
    while low < high:
        middle = (low + high) >> 1
        if changes[middle, 0] < place:
            low = middle + 1
        else:
            high = middle
    word: int = base[place]
    if low < len(changes) and changes[low, 0] == place:
        word = changes[low, 1]
    return word
