"""The moves of an automaton as arrays: three layouts, conversions, and what moves lead to.

A *move* is a transition that reads a symbol: a class of code points, of bytes, or a whole set.

::

    table    int32 [states, classes]         class  0   1   2
             the target, -1 for no move    state 0: 1  -1   2
                                           state 1: -1 -1   1

    list     int32 [3, moves]             sources:  0   0   1
             one column for each move     targets:  1   2   1
                                          classes:  0   2   2

    Moves    by state, as a sparse        first:    0   2   3
             matrix by rows (CSR)         classes:  0   2   2
                                          targets:  1   2   1
             the moves of state s are those from first[s] up to first[s + 1]

Tables are what recognisers read; most cells of a table with many classes are empty, so algorithms
over whole automata use ``Moves``. ``MovesInto`` is the same by target, to follow moves backwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import allocating_kernel, kernel

__all__ = [
    "Moves",
    "MovesInto",
    "copy_moves",
    "group_by_key",
    "grow",
    "keys_of",
    "list_moves",
    "list_moves_on",
    "moves_by_state",
    "moves_into",
    "spread",
    "table_from_moves",
]


class Moves(NamedTuple):
    """Moves by source; only kernels create and take it, as Python would unpack it slowly."""

    first: NDArray[np.int32]  # [states + 1]
    classes: NDArray[np.int32]  # [moves]
    targets: NDArray[np.int32]  # [moves]


class MovesInto(NamedTuple):
    """Moves by target: those into state ``s`` are from ``first[s]`` up to ``first[s + 1]``."""

    first: NDArray[np.int32]  # [states + 1]
    sources: NDArray[np.int32]  # [moves]
    classes: NDArray[np.int32]  # [moves]


@allocating_kernel
def list_moves(table: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a table's moves as a list, by state and then by class."""
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


@allocating_kernel
def list_moves_on(table: NDArray[np.int32], classes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the moves on some classes as a list: class by class, then by state.

    In place of its class a move has the index of the class in ``classes``.
    """
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
def copy_moves(
    into: NDArray[np.int32],
    begin: int,
    moves: NDArray[np.int32],
    first: int,
    sets: NDArray[np.int32],
) -> None:
    """Copy the moves of a list into another one, from index ``begin`` on; there must be room.

    State ``s`` becomes ``first + s``, and class ``c`` becomes ``sets[c]``.
    """
    for at in range(moves.shape[1]):
        into[0, begin + at] = moves[0, at] + first
        into[1, begin + at] = moves[1, at] + first
        into[2, begin + at] = sets[moves[2, at]]


@allocating_kernel
def moves_by_state(table: NDArray[np.int32]) -> Moves:
    """Return the moves of a table, those of each state by ascending class."""
    count, width = table.shape
    first = np.empty(count + 1, dtype=np.int32)
    classes = np.empty(table.size, dtype=np.int32)
    targets = np.empty(table.size, dtype=np.int32)
    size = 0
    for state in range(count):
        first[state] = size
        for index in range(width):
            if table[state, index] != -1:
                classes[size], targets[size] = index, table[state, index]
                size += 1
    first[count] = size
    return Moves(first, classes[:size], targets[:size])


@allocating_kernel
def table_from_moves(moves: Moves, group: NDArray[np.int32], groups: int) -> NDArray[np.int32]:
    """Return the table of moves, int32 ``[states, groups]``: a column for each group of classes.

    ``group`` has the group of each class. Every class that a move reads must have one, and classes
    of one group must have the same moves.
    """
    count = len(moves.first) - 1
    table = np.full((count, groups), -1, dtype=np.int32)
    for state in range(count):
        for at in range(moves.first[state], moves.first[state + 1]):
            table[state, group[moves.classes[at]]] = moves.targets[at]
    return table


@allocating_kernel
def moves_into(moves: Moves) -> MovesInto:
    """Return the same moves by target, those into each state in the order of their sources."""
    first, order = group_by_key(len(moves.first) - 1, moves.targets)
    return MovesInto(first, keys_of(moves.first)[order], moves.classes[order])


@allocating_kernel
def group_by_key(
    count: int, keys: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return where each group of equal keys begins, and the indices of keys, group by group.

    Keys are from 0 to ``count`` - 1: key ``k`` has the indices from ``first[k]`` up to
    ``first[k + 1]``, in ascending order (a counting sort).
    """
    first = np.zeros(count + 1, dtype=np.int32)
    for key in keys:
        first[key + 1] += 1
    for key in range(count):
        first[key + 1] += first[key]
    place = first[:-1].copy()
    indices = np.empty(len(keys), dtype=np.int32)
    for index in range(len(keys)):
        indices[place[keys[index]]] = index
        place[keys[index]] += 1
    return first, indices


@allocating_kernel
def keys_of(first: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the key of each index, where key ``k`` has those from ``first[k]`` up to the next."""
    keys = np.empty(first[-1], dtype=np.int32)
    for key in range(len(first) - 1):
        keys[first[key] : first[key + 1]] = key
    return keys


@allocating_kernel
def spread(
    first: NDArray[np.int32], neighbours: NDArray[np.int32], marked: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the marked states and all that a path leads to from them, bool ``[states]``.

    From state ``s`` an edge leads to the ``neighbours`` from ``first[s]`` up to ``first[s + 1]``.
    """
    found = marked.copy()
    stack = np.empty(len(marked), dtype=np.int32)
    top = 0
    for state in range(len(marked)):
        if marked[state]:
            stack[top] = state
            top += 1
    while top:
        top -= 1
        state = stack[top]
        for at in range(first[state], first[state + 1]):
            neighbour = neighbours[at]
            if not found[neighbour]:
                found[neighbour] = True
                stack[top] = neighbour
                top += 1
    return found


@allocating_kernel
def grow(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy of an array with ``size`` rows; the new ones are not initialized."""
    copy = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    copy[: len(array)] = array
    return copy
