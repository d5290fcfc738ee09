"""Single bits and words of masks in compiled code, with their fingerprints.

A mask is int32 ``[words]``: token ``t`` is bit ``t % 32`` of word ``t // 32``. Its fingerprint is
the exclusive or of one number per token, so changing a bit changes it by that number alone::

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
    "is_same",
    "set_token",
    "set_tokens",
    "word_at",
]

_AT_ONCE: Final = 128
"""Words compared at once; mostly few of them differ."""


@inlined
def _number_of(token: int) -> np.uint64:
    """Return what a token adds to the fingerprint of a mask, which is the XOR of these numbers.

    So setting and clearing a bit change it alike, and the order of changes does not matter. Masks
    with equal fingerprints are compared word by word (``MaskStore.keep``), so any mix will do that
    seldom makes them equal; the numbers do not outlive the process.
    """
    number = (np.uint64(token) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return number ^ (number >> np.uint64(32))


@inlined
def set_token(token: int, words: NDArray[np.int32]) -> np.uint64:
    """Set the bit of a token; returns what that changes in the fingerprint.

    That is 0 where the bit was set before, so callers XOR it in without looking. ``token`` must be
    one of the mask: compiled code checks no bounds.
    """
    word, bit = token >> 5, np.int32(1) << np.int32(token & 31)
    if words[word] & bit:
        return np.uint64(0)
    words[word] |= bit
    return _number_of(token)


@inlined
def clear_token(token: int, words: NDArray[np.int32]) -> np.uint64:
    """Clear the bit of a token; returns what that changes in the fingerprint.

    That is 0 where the bit was not set, so callers XOR it in without looking. ``token`` must be one
    of the mask: compiled code checks no bounds.
    """
    word, bit = token >> 5, np.int32(1) << np.int32(token & 31)
    if not words[word] & bit:
        return np.uint64(0)
    words[word] &= ~bit
    return _number_of(token)


@kernel
def set_tokens(tokens: NDArray[np.int32], words: NDArray[np.int32]) -> int:
    """Set the bits of tokens; returns what that changes in the fingerprint."""
    change = np.uint64(0)
    for token in tokens:
        change ^= set_token(token, words)
    return int(np.int64(change))


@kernel
def clear_tokens(tokens: NDArray[np.int32], words: NDArray[np.int32]) -> int:
    """Clear the bits of tokens; returns what that changes in the fingerprint."""
    change = np.uint64(0)
    for token in tokens:
        change ^= clear_token(token, words)
    return int(np.int64(change))


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

    ``word_at`` relies on the order of the places, ``is_same`` on every listed word being different
    from the base's. What lies after the changes is left as it was.
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
def is_same(base: NDArray[np.int32], changes: NDArray[np.int32], words: NDArray[np.int32]) -> bool:
    """Return whether the base with its changes is the mask ``words``.

    It is if the mask differs from the base in as many words as there are changes, and has the word
    of each change. No change may equal the word of the base; ``find_changes`` makes none that does.
    """
    differing = 0
    for place in range(len(words)):  # without an early exit, so that it is vectorised
        differing += words[place] != base[place]
    if differing != len(changes):
        return False
    for index in range(len(changes)):
        differing -= words[changes[index, 0]] == changes[index, 1]
    return differing == 0


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
