"""States over code points laid out over bytes; compiled, since there are many thousand rows."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import making_kernel

__all__ = ["FIRST_CLASS", "laid_out"]

FIRST_CLASS: Final = -2
"""In a template, -2 stands for the first class of code points, -3 for the second, and so on."""


def laid_out(
    table: NDArray[np.int32], template: NDArray[np.int32], most_cells: int
) -> NDArray[np.int32] | None:
    """The table over bytes, int32 ``[rows, byte classes]``; None for more than ``most_cells``.

    ``table`` is int32 ``[states, classes]`` with -1 for no move. ``template`` spells the classes,
    int32 ``[nodes, byte classes]``: node 0 is where a code point begins, the others are inside of
    one, each behind those that it leads to. State ``s`` is row ``s`` of the result; rows inside of
    a code point are appended behind all states, equal ones once.
    """
    rows, spelled = _laid_out(
        np.ascontiguousarray(table), np.ascontiguousarray(template), most_cells
    )
    return None if rows < 0 else spelled[:rows]


@making_kernel
def _hash(row):  # type: ignore[no-untyped-def]
    value = np.uint64(0xCBF29CE484222325)
    for cell in row:
        value = (value ^ np.uint64(cell + 1)) * np.uint64(0x100000001B3)
        value ^= value >> np.uint64(29)
    return value


@making_kernel
def _equal(left, right):  # type: ignore[no-untyped-def]
    index = 0
    while index < len(left) and left[index] == right[index]:
        index += 1
    return index == len(left)


@making_kernel
def _laid_out(moves, template, most_cells):  # type: ignore[no-untyped-def]
    count = len(moves)
    nodes, width = template.shape
    room = count + 64
    table = np.empty((room, width), dtype=np.int32)
    slots = np.full(256, -1, dtype=np.int32)
    numbers = np.empty(nodes, dtype=np.int32)
    row = np.empty(width, dtype=np.int32)
    rows = count
    for state in range(count):
        if rows * width > most_cells or state * nodes * width > 32 * most_cells:
            return -1, table
        for step in range(nodes):
            # The rows inside come first, in the order in which they lead to each other.
            node = (step + 1) % nodes
            leads_on = False
            for index in range(width):
                cell = template[node, index]
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
            mask = np.uint64(len(slots) - 1)
            slot = _hash(row) & mask
            while slots[slot] != -1 and not _equal(table[slots[slot]], row):
                slot = (slot + np.uint64(1)) & mask
            numbers[node] = slots[slot]
            if slots[slot] != -1:
                continue
            if rows == room:
                room *= 2
                longer = np.empty((room, width), dtype=np.int32)
                longer[:rows] = table
                table = longer
            table[rows] = row
            slots[slot] = numbers[node] = rows
            rows += 1
            if 2 * (rows - count) > len(slots):
                slots = np.full(2 * len(slots), -1, dtype=np.int32)
                mask = np.uint64(len(slots) - 1)
                for other in range(count, rows):
                    slot = _hash(table[other]) & mask
                    while slots[slot] != -1:
                        slot = (slot + np.uint64(1)) & mask
                    slots[slot] = other
    return rows, table
