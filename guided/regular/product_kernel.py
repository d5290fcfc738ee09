"""The product of two transition tables, compiled by numba.

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

from guided.regular.transitions import grow
from guided.runtime.kernel import allocating_kernel

__all__ = ["complete_table", "product_table"]


def product_table(
    left: NDArray[np.int32], right: NDArray[np.int32], max_pairs: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]] | None:
    """Return the product of two tables; None for more than ``max_pairs`` pairs of states.

    Both tables must be complete and have the same classes. Returns the table of the pairs that some
    text leads to from ``(0, 0)``, int32 ``[pairs, classes]``, and their left and right states,
    int32 ``[pairs]``.
    """
    # In one layout, since numba compiles the function again for every other one.
    tables = np.ascontiguousarray(left), np.ascontiguousarray(right)
    count, table, lefts, rights = _product_table(*tables, max_pairs)
    return None if count > max_pairs else (table[:count], lefts[:count], rights[:count])


@allocating_kernel
def complete_table(table: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a complete table over finer classes, with a last state for all missing moves.

    ``columns`` has for each new class the one that it is a part of, -1 for none.
    """
    count = len(table)
    whole = np.full((count + 1, len(columns)), count, dtype=np.int32)
    for state in range(count):
        for place in range(len(columns)):
            if columns[place] != -1 and table[state, columns[place]] != -1:
                whole[state, place] = table[state, columns[place]]
    return whole


@allocating_kernel
def _product_table(
    left: NDArray[np.int32], right: NDArray[np.int32], max_pairs: int
) -> tuple[int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Compute ``product_table``: the number of pairs, and arrays that may be longer.

    Stops at ``max_pairs + 1`` pairs; then the table is not complete.
    """
    width = left.shape[1]
    capacity = min(max(len(left), len(right), 16), max_pairs) + 1
    table = np.empty((capacity, width), dtype=np.int32)
    lefts = np.empty(capacity, dtype=np.int32)
    rights = np.empty(capacity, dtype=np.int32)
    slots = np.full(_num_slots(capacity), -1, dtype=np.int32)
    lefts[0] = rights[0] = 0
    slots[_find_slot(slots, lefts, rights, 0, 0)] = 0
    count, done = 1, 0
    while done < count:
        for index in range(width):
            a, b = left[lefts[done], index], right[rights[done], index]
            slot = _find_slot(slots, lefts, rights, a, b)
            if slots[slot] == -1:
                if count == capacity:
                    # ``capacity`` is at most ``max_pairs + 1``: the last pair is one too many.
                    if count > max_pairs:
                        return count, table, lefts, rights
                    capacity = min(2 * capacity, max_pairs + 1)
                    table = grow(table, capacity)
                    lefts, rights = grow(lefts, capacity), grow(rights, capacity)
                    slots = np.full(_num_slots(capacity), -1, dtype=np.int32)
                    for pair in range(count):
                        slots[_find_slot(slots, lefts, rights, lefts[pair], rights[pair])] = pair
                    slot = _find_slot(slots, lefts, rights, a, b)
                slots[slot] = count
                lefts[count], rights[count] = a, b
                count += 1
            table[done, index] = slots[slot]
        done += 1
    return count, table, lefts, rights


@allocating_kernel
def _num_slots(capacity: int) -> int:
    """Return the number of slots for ``capacity`` pairs: at least twice as many, so one is free.

    It is a power of two, for the mask of ``_find_slot``.
    """
    size = 32
    while size < 2 * capacity:
        size *= 2
    return size


@allocating_kernel
def _find_slot(
    slots: NDArray[np.int32], lefts: NDArray[np.int32], rights: NDArray[np.int32], a: int, b: int
) -> int:
    """Return the slot of a pair: where it is, or where to enter it.

    The number of slots is that of ``_num_slots``, so the search ends.
    """
    mask = len(slots) - 1
    slot = ((a * 0x9E3779B1) ^ (b * 0x85EBCA77)) * 0x27D4EB2F
    slot = (slot ^ (slot >> 15)) & mask
    while slots[slot] != -1 and (lefts[slots[slot]] != a or rights[slots[slot]] != b):
        slot = (slot + 1) & mask
    return slot
