"""All moves of automata in arrays.

As sources, targets and what they read, int32 ``[3, moves]``, or by row: where the moves of each
state begin, what each reads, and where it leads, int32.
"""

from __future__ import annotations

import numpy as np

from guided.runtime.kernel import kernel, making_kernel

__all__ = ["columns_of", "moves_in", "moves_of", "moves_on", "paste_moves"]


@making_kernel
def moves_of(table):  # type: ignore[no-untyped-def]
    """The moves of a table, int32 ``[states, classes]``; they read classes."""
    count, width = table.shape
    size = 0
    for state in range(count):
        for index in range(width):
            size += table[state, index] != -1
    moves = np.empty((3, size), dtype=np.int32)
    at = 0
    for state in range(count):
        for index in range(width):
            if table[state, index] != -1:
                moves[0, at], moves[1, at], moves[2, at] = state, table[state, index], index
                at += 1
    return moves


@making_kernel
def moves_on(table, classes):  # type: ignore[no-untyped-def]
    """The moves on some classes, class by class, with each one's place among those."""
    moves = np.empty((3, len(classes) * len(table)), dtype=np.int32)
    at = 0
    for place in range(len(classes)):
        for state in range(len(table)):
            target = table[state, classes[place]]
            if target != -1:
                moves[0, at], moves[1, at], moves[2, at] = state, target, place
                at += 1
    return moves[:, :at]


@kernel
def paste_moves(bulk, begin, moves, first, sets):  # type: ignore[no-untyped-def]
    """Write moves into ``bulk`` from ``begin`` on, of states that are numbered from ``first`` on.

    They read ``sets`` for classes.
    """
    for at in range(moves.shape[1]):
        bulk[0, begin + at] = moves[0, at] + first
        bulk[1, begin + at] = moves[1, at] + first
        bulk[2, begin + at] = sets[moves[2, at]]


@making_kernel
def moves_in(table):  # type: ignore[no-untyped-def]
    """The moves of a table by row: where those of each begin, their columns, and what they hold."""
    count, width = table.shape
    first = np.empty(count + 1, dtype=np.int32)
    columns = np.empty(table.size, dtype=np.int32)
    targets = np.empty(table.size, dtype=np.int32)
    top = 0
    for row in range(count):
        first[row] = top
        for column in range(width):
            if table[row, column] != -1:
                columns[top], targets[top] = column, table[row, column]
                top += 1
    first[count] = top
    return first, columns[:top], targets[:top]


@making_kernel
def columns_of(moves, group, groups):  # type: ignore[no-untyped-def]
    """A table of moves, with a column for each group of columns, int32 ``[rows, groups]``."""
    first, columns, targets = moves
    table = np.full((len(first) - 1, groups), -1, dtype=np.int32)
    for row in range(len(first) - 1):
        for at in range(first[row], first[row + 1]):
            table[row, group[columns[at]]] = targets[at]
    return table
