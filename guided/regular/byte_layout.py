"""A table over code points into a table over bytes; compiled, as it may have thousands of rows.

A *template* spells the classes of code points once, as a trie, and every state follows it. For
``é`` (C3 A9) as the first class and ``a`` as the second, with three byte classes::

    template   bytes    a   C3   A9
    node 0             -3    1   -1      if a code point begins
    node 1             -1   -1   -2      after C3

    state 0 leads by é to 0 and by a to 1; state 1 by é to 0

    result     bytes    a   C3   A9
    row 0               1    2   -1      state 0
    row 1              -1    2   -1      state 1
    row 2              -1   -1    0      after C3, of both: equal rows are stored once
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import grow
from guided.runtime.kernel import allocating_kernel

__all__ = ["FIRST_CLASS", "spell_in_bytes"]

FIRST_CLASS: Final = -2
"""In a template, -2 stands for the first class of code points, -3 for the second, and so on."""


def spell_in_bytes(
    table: NDArray[np.int32], template: NDArray[np.int32], max_cells: int
) -> NDArray[np.int32] | None:
    """Return the table over bytes, int32 ``[rows, byte classes]``, or None if it gets too large.

    ``table`` is int32 ``[states, classes]`` with -1 for no move. ``template`` spells the classes,
    int32 ``[nodes, byte classes]``: node 0 is where a code point begins, the others are inside one,
    each after those that it leads to. State ``s`` is row ``s`` of the result; rows inside a code
    point follow all states.

    ``max_cells`` bounds memory and work, both checked before each state: None if by then there are
    more cells than that, or ``32 * max_cells`` cells of the template were looked at. The bound on
    work is higher, as most rows inside a code point are found again and add no cell. So the result
    may have some more cells than ``max_cells``: those that the last state adds.
    """
    rows, spelled = _spell_in_bytes(
        np.ascontiguousarray(table), np.ascontiguousarray(template), max_cells
    )
    return None if rows < 0 else spelled[:rows]


@allocating_kernel
def _hash(row: NDArray[np.int32]) -> np.uint64:
    """Return a hash of a row, for the table of rows inside code points; cells are -1 or more."""
    value = np.uint64(0xCBF29CE484222325)
    for cell in row:
        value = (value ^ np.uint64(cell + 1)) * np.uint64(0x100000001B3)
        value ^= value >> np.uint64(29)
    return value


@allocating_kernel
def _are_equal(left: NDArray[np.int32], right: NDArray[np.int32]) -> bool:
    index = 0
    while index < len(left) and left[index] == right[index]:
        index += 1
    return index == len(left)


@allocating_kernel
def _find_slot(slots: NDArray[np.int32], table: NDArray[np.int32], row: NDArray[np.int32]) -> int:
    """Return the slot of a row inside a code point: where it is, or where to enter it.

    The number of slots is a power of two, and one of them is free.
    """
    mask = np.uint64(len(slots) - 1)
    slot = _hash(row) & mask
    while slots[slot] != -1 and not _are_equal(table[slots[slot]], row):
        slot = (slot + np.uint64(1)) & mask
    return int(slot)


@allocating_kernel
def _spell_in_bytes(
    moves: NDArray[np.int32], template: NDArray[np.int32], max_cells: int
) -> tuple[int, NDArray[np.int32]]:
    """Compute ``spell_in_bytes``: the number of rows, or -1, and a table that may be longer."""
    count = len(moves)
    nodes, width = template.shape
    capacity = count + 64
    table = np.empty((capacity, width), dtype=np.int32)
    slots = np.full(256, -1, dtype=np.int32)
    numbers = np.empty(nodes, dtype=np.int32)
    row = np.empty(width, dtype=np.int32)
    # Rows of states have their places from the start; ``slots`` finds all other rows by their hash,
    # and is made longer when half of it is used.
    rows = count
    for state in range(count):
        if rows * width > max_cells or state * nodes * width > 32 * max_cells:
            return -1, table
        for step in range(nodes):
            # Nodes 1, 2, ... and 0 last: a node comes after those that it leads to, whose rows
            # ``numbers`` must have by then, and node 0 leads to any of them.
            node = (step + 1) % nodes
            leads_on = False
            for index in range(width):
                cell = template[node, index]
                # A code point ends with this byte, or continues inside it, or (-1) neither.
                if cell <= FIRST_CLASS:
                    cell = moves[state, FIRST_CLASS - cell]
                elif cell > 0:
                    cell = numbers[cell]
                row[index] = cell
                leads_on |= cell != -1
            if node == 0:
                table[state] = row
                continue
            if not leads_on:
                numbers[node] = -1
                continue
            slot = _find_slot(slots, table, row)
            numbers[node] = slots[slot]
            if slots[slot] != -1:
                continue
            if rows == capacity:
                capacity *= 2
                table = grow(table, capacity)
            table[rows] = row
            slots[slot] = numbers[node] = rows
            rows += 1
            if 2 * (rows - count) > len(slots):
                slots = np.full(2 * len(slots), -1, dtype=np.int32)
                for other in range(count, rows):
                    slots[_find_slot(slots, table, table[other])] = other
    return rows, table
