"""The product of two transition tables, which run side by side; compiled by numba.

A state of the product is a pair of states, and pairs are numbered as texts lead to them, from
``(0, 0)`` on::

    pair     0      1      2
    lefts    0      1      1
    rights   0      0      2
    slots    -1 2 -1 0 1 ...       pairs by the hash of their states (open addressing)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import longer
from guided.runtime.kernel import making_kernel

__all__ = ["completed", "pair_up"]


def pair_up(
    left: NDArray[np.int32], right: NDArray[np.int32], most: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]] | None:
    """Return all pairs of states a text leads to, from ``(0, 0)`` on; None for more than ``most``.

    Both tables are complete and have the same classes. Returns the table of the pairs, int32
    ``[pairs, classes]``, and their left and right states, int32 ``[pairs]``.
    """
    # In one layout, since numba compiles the function again for every other one.
    tables = np.ascontiguousarray(left), np.ascontiguousarray(right)
    count, table, lefts, rights = _pair_up(*tables, most)
    return None if count > most else (table[:count], lefts[:count], rights[:count])


@making_kernel
def completed(table: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a complete table over other classes, with a last state for all missing moves.

    ``columns`` has for each new class the one that it is a part of, -1 for none.
    """
    count = len(table)
    whole = np.full((count + 1, len(columns)), count, dtype=np.int32)
    for state in range(count):
        for place in range(len(columns)):
            if columns[place] != -1 and table[state, columns[place]] != -1:
                whole[state, place] = table[state, columns[place]]
    return whole


@making_kernel
def _pair_up(
    left: NDArray[np.int32], right: NDArray[np.int32], most: int
) -> tuple[int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Like ``pair_up``, in arrays that may have more room than they use.

    Stops at ``most + 1`` pairs, where the table is not complete and only the count says so.
    """
    width = left.shape[1]
    room = min(max(len(left), len(right), 16), most) + 1
    table = np.empty((room, width), dtype=np.int32)
    lefts = np.empty(room, dtype=np.int32)
    rights = np.empty(room, dtype=np.int32)
    slots = np.full(_slots_for(room), -1, dtype=np.int32)
    lefts[0] = rights[0] = 0
    slots[_slot(slots, lefts, rights, 0, 0)] = 0
    count, done = 1, 0
    while done < count:
        for index in range(width):
            a, b = left[lefts[done], index], right[rights[done], index]
            slot = _slot(slots, lefts, rights, a, b)
            if slots[slot] == -1:
                if count == room:
                    # ``room`` is at most ``most + 1``: the last pair says that there are too many.
                    if count > most:
                        return count, table, lefts, rights
                    room = min(2 * room, most + 1)
                    table = longer(table, room)
                    lefts, rights = longer(lefts, room), longer(rights, room)
                    slots = np.full(_slots_for(room), -1, dtype=np.int32)
                    for pair in range(count):
                        slots[_slot(slots, lefts, rights, lefts[pair], rights[pair])] = pair
                    slot = _slot(slots, lefts, rights, a, b)
                slots[slot] = count
                lefts[count], rights[count] = a, b
                count += 1
            table[done, index] = slots[slot]
        done += 1
    return count, table, lefts, rights


@making_kernel
def _slots_for(room: int) -> int:
    """Return the number of slots for ``room`` pairs: at least twice as many, so one is free.

    It is a power of two, for the mask of ``_slot``.
    """
    size = 32
    while size < 2 * room:
        size *= 2
    return size


@making_kernel
def _slot(
    slots: NDArray[np.int32], lefts: NDArray[np.int32], rights: NDArray[np.int32], a: int, b: int
) -> int:
    """Return the slot of a pair: where it is, or where to enter it.

    The number of slots is as ``_slots_for`` says, so the search ends.
    """
    mask = len(slots) - 1
    slot = ((a * 0x9E3779B1) ^ (b * 0x85EBCA77)) * 0x27D4EB2F
    slot = (slot ^ (slot >> 15)) & mask
    while slots[slot] != -1 and (lefts[slots[slot]] != a or rights[slots[slot]] != b):
        slot = (slot + 1) & mask
    return slot
