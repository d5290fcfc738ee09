"""Masks as the words in which they differ from others, in compiled code; see ``MaskDelta``."""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.runtime.kernel import kernel

__all__ = ["fill_words", "find_changes", "is_same", "word_at"]

_AT_ONCE: Final = 128
"""Words of which few hold a difference, mostly."""


@kernel
def find_changes(mask, base, room):  # type: ignore[no-untyped-def]
    """Write the words in which a mask differs from another; returns how many."""
    count = 0
    for first in range(0, len(mask), _AT_ONCE):
        here, there = mask[first : first + _AT_ONCE], base[first : first + _AT_ONCE]
        differing = np.int32(0)
        for place in range(len(here)):  # without a way out, as below
            differing |= here[place] ^ there[place]
        if differing:
            for place in range(len(here)):
                if here[place] != there[place]:
                    room[count, 0], room[count, 1] = first + place, here[place]
                    count += 1
    return count


@kernel
def fill_words(base, changes, out):  # type: ignore[no-untyped-def]
    """Write the base with its changes."""
    for place in range(len(out)):
        out[place] = base[place]
    for index in range(len(changes)):
        out[changes[index, 0]] = changes[index, 1]


@kernel
def is_same(base, changes, mask):  # type: ignore[no-untyped-def]
    """Whether the base with its changes is a mask."""
    differing = 0
    for place in range(len(mask)):  # without a way out, so that it runs over many words at once
        differing += mask[place] != base[place]
    if differing != len(changes):
        return False
    for index in range(len(changes)):
        differing -= mask[changes[index, 0]] == changes[index, 1]
    return differing == 0


@kernel
def word_at(base, changes, place):  # type: ignore[no-untyped-def]
    """One word of the base with its changes."""
    low, high = 0, len(changes)
    while low < high:
        middle = (low + high) >> 1
        if changes[middle, 0] < place:
            low = middle + 1
        else:
            high = middle
    if low < len(changes) and changes[low, 0] == place:
        return changes[low, 1]
    return base[place]
