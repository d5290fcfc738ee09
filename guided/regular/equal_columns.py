"""Classes that no state distinguishes: equal columns of a transition table, compiled by numba.

A column is looked up by a hash of its moves, and compared with the columns of the same hash::

    class     a  b  c  d          states  0 2 | 2 | 0 2 |      the moves by class
    state 0   1  .  1  .          targets 1 1 | 2 | 1 1 |
    state 2   1  2  1  .          begin   0     2   3     5 5
                                  group   0     1   0     -1
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import Moves, moves_by_state
from guided.runtime.kernel import inlined, making_kernel

__all__ = [
    "NONE",
    "SEVERAL",
    "column_groups",
    "equal_columns",
    "joint_columns",
]

NONE: Final = -1
SEVERAL: Final = -2
"""In place of the number of the only row that has a move in a column: none has, or several have."""


@making_kernel
def equal_columns(rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the class of each column, uint8 ``[columns]``, and a column of each class, its first.

    For at most 256 columns. Classes are numbered by their first columns.
    """
    group, representative = _all_grouped(rows)
    return group.astype(np.uint8), representative


@making_kernel
def joint_columns(
    rows: NDArray[np.int32],
    byte_column: NDArray[np.uint8],
    places: NDArray[np.int32],
    apart: NDArray[np.bool_],
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the columns of rows ``places`` of a table, int32 ``[all, columns]``, equal ones once.

    Columns that are ``apart``, bool ``[columns]``, and in which some of the rows have a move, are
    separate classes. ``byte_column``, uint8 ``[256]``, has the column of each byte; every column
    must have a byte, as one of every class is returned. Returns the class of each byte, uint8
    ``[256]``, and by class: what its column holds, followed by the column's number if it is one
    apart, else -1, int32 ``[classes, places + 1]``; the only row that has a move, as a place in
    ``places``, or NONE or SEVERAL; and its lowest byte.
    """
    count, width = len(places), rows.shape[1]
    chosen = np.full((count + 1, width), -1, dtype=np.int32)
    for number in range(count):
        for column in range(width):
            target = rows[places[number], column]
            chosen[number, column] = target
            if target != -1 and apart[column]:
                chosen[count, column] = column
    group_of, representative = _all_grouped(chosen)
    columns = np.empty((len(representative), count + 1), dtype=np.int32)
    alone = np.full(len(representative), NONE, dtype=np.int32)
    for group in range(len(representative)):
        columns[group] = chosen[:, representative[group]]
        for number in range(count):
            if columns[group, number] != -1:
                alone[group] = number if alone[group] == NONE else SEVERAL
    byte_class = np.empty(256, dtype=np.uint8)
    byte_of = np.empty(len(representative), dtype=np.int64)
    for byte in range(255, -1, -1):
        byte_class[byte] = group_of[byte_column[byte]]
        byte_of[byte_class[byte]] = byte
    return byte_class, columns, alone, byte_of


@making_kernel
def column_groups(moves: Moves, width: int) -> tuple[NDArray[np.int32], int]:
    """Return the group of each class below ``width``, equal ones in one, and the number of groups.

    Groups are numbered by their first classes; classes without moves are in none, and have -1.
    """
    begin, states, targets, hashes = _by_class(moves, width)
    room = 16
    while room < 2 * width:
        room *= 2
    slots = np.full(room, -1, dtype=np.int32)
    group = np.full(width, -1, dtype=np.int32)
    groups = 0
    for column in range(width):
        if begin[column + 1] == begin[column]:
            continue
        slot = np.int64(hashes[column] >> np.uint64(20)) & (room - 1)
        while slots[slot] != -1 and not (
            hashes[slots[slot]] == hashes[column]
            and _same(begin, states, targets, slots[slot], column)
        ):
            slot = (slot + 1) & (room - 1)
        if slots[slot] == -1:
            slots[slot], group[column] = column, groups
            groups += 1
        else:
            group[column] = group[slots[slot]]
    return group, groups


@making_kernel
def _by_class(
    moves: Moves, width: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
    """Moves by class: where those of each begin, their states and targets; a hash of each class.

    Those of a class are in the order of their states, so ``_same`` compares them side by side.
    """
    begin = np.zeros(width + 1, dtype=np.int32)
    for index in moves.classes:
        begin[index + 1] += 1
    for index in range(width):
        begin[index + 1] += begin[index]
    place = begin[:-1].copy()
    states = np.empty(len(moves.classes), dtype=np.int32)
    targets = np.empty(len(moves.classes), dtype=np.int32)
    hashes = np.zeros(width, dtype=np.uint64)
    for state in range(len(moves.first) - 1):
        salt = np.uint64(state + 1) * np.uint64(0xBF58476D1CE4E5B9)
        for at in range(moves.first[state], moves.first[state + 1]):
            index, target = moves.classes[at], moves.targets[at]
            states[place[index]], targets[place[index]] = state, target
            place[index] += 1
            mixed = (salt ^ np.uint64(target)) * np.uint64(0x9E3779B97F4A7C15)
            hashes[index] += mixed ^ (mixed >> np.uint64(29))
    return begin, states, targets, hashes


@inlined
def _same(
    begin: NDArray[np.int32],
    states: NDArray[np.int32],
    targets: NDArray[np.int32],
    one: int,
    other: int,
) -> bool:
    """Return whether two classes have the same moves."""
    size = begin[one + 1] - begin[one]
    if begin[other + 1] - begin[other] != size:
        return False
    for at in range(size):
        left, right = begin[one] + at, begin[other] + at
        if states[left] != states[right] or targets[left] != targets[right]:
            return False
    return True


@making_kernel
def _all_grouped(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the group of each column of a table, and a column of each group.

    Like ``column_groups``, except that columns that only hold -1 also form a group. Groups are
    numbered by their first columns, and the column of each is the first.
    """
    width = rows.shape[1]
    group, groups = column_groups(moves_by_state(rows), width)
    number_of = np.full(groups + 1, -1, dtype=np.int32)
    representative = np.empty(groups + 1, dtype=np.int64)
    size = 0
    for column in range(width):
        known = group[column] if group[column] != -1 else groups
        if number_of[known] == -1:
            number_of[known], representative[size] = size, column
            size += 1
        group[column] = number_of[known]
    return group, representative[:size]
