"""Equal columns of transition tables: classes that no state distinguishes; compiled by numba.

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

from guided.regular.transitions import Moves, group_by_key, keys_of, moves_by_state
from guided.runtime.kernel import allocating_kernel, inlined

__all__ = [
    "NO_ROW",
    "SEVERAL_ROWS",
    "distinct_columns",
    "group_classes",
    "group_columns",
]

NO_ROW: Final = -1
SEVERAL_ROWS: Final = -2
"""In place of the only row that has a move in a column, if there is none or more than one."""


@allocating_kernel
def group_columns(rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the group of each column, uint8 ``[columns]``, and the first column of each group.

    Equal columns are in one group. For at most 256 columns. Groups are numbered by their first
    columns.
    """
    group, representative = _group_all_columns(rows)
    return group.astype(np.uint8), representative


@allocating_kernel
def distinct_columns(
    rows: NDArray[np.int32],
    byte_column: NDArray[np.uint8],
    places: NDArray[np.int32],
    separate: NDArray[np.bool_],
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the distinct columns of some rows of a table, and which bytes have each of them.

    ``rows`` is the table, int32 ``[all, columns]``, and ``places`` are the rows. ``byte_column``,
    uint8 ``[256]``, has the column of each byte; every column must have a byte. A column that is
    ``separate``, bool ``[columns]``, and in which some of the rows have a move, counts as different
    from all others.

    Returns the class of each byte, uint8 ``[256]``, and for each class: its column, followed by the
    number of that column if it is separate, else -1, int32 ``[classes, places + 1]``; the only row
    that has a move, as an index into ``places``, or NO_ROW or SEVERAL_ROWS; and its lowest byte.
    """
    count, width = len(places), rows.shape[1]
    chosen = np.full((count + 1, width), -1, dtype=np.int32)
    for number in range(count):
        for column in range(width):
            target = rows[places[number], column]
            chosen[number, column] = target
            if target != -1 and separate[column]:
                chosen[count, column] = column
    group_of, representative = _group_all_columns(chosen)
    columns = np.empty((len(representative), count + 1), dtype=np.int32)
    only_row = np.full(len(representative), NO_ROW, dtype=np.int32)
    for group in range(len(representative)):
        columns[group] = chosen[:, representative[group]]
        for number in range(count):
            if columns[group, number] != -1:
                only_row[group] = number if only_row[group] == NO_ROW else SEVERAL_ROWS
    byte_class = np.empty(256, dtype=np.uint8)
    byte_of = np.empty(len(representative), dtype=np.int64)
    for byte in range(255, -1, -1):
        byte_class[byte] = group_of[byte_column[byte]]
        byte_of[byte_class[byte]] = byte
    return byte_class, columns, only_row, byte_of


@allocating_kernel
def group_classes(moves: Moves, width: int) -> tuple[NDArray[np.int32], int]:
    """Return the group of each class below ``width``, and the number of groups.

    Classes that no state distinguishes are in one group. Groups are numbered by their first
    classes; classes without moves are in none, and have -1.
    """
    begin, states, targets, hashes = _moves_by_class(moves, width)
    capacity = 16
    while capacity < 2 * width:
        capacity *= 2
    slots = np.full(capacity, -1, dtype=np.int32)
    group = np.full(width, -1, dtype=np.int32)
    groups = 0
    for column in range(width):
        if begin[column + 1] == begin[column]:
            continue
        slot = np.int64(hashes[column] >> np.uint64(20)) & (capacity - 1)
        while slots[slot] != -1 and not (
            hashes[slots[slot]] == hashes[column]
            and _are_equal(begin, states, targets, slots[slot], column)
        ):
            slot = (slot + 1) & (capacity - 1)
        if slots[slot] == -1:
            slots[slot], group[column] = column, groups
            groups += 1
        else:
            group[column] = group[slots[slot]]
    return group, groups


@allocating_kernel
def _moves_by_class(
    moves: Moves, width: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
    """Return moves by class: where those of each begin, states, targets; and a hash of each class.

    The moves of a class are in the order of their states, so that ``_are_equal`` can compare them
    one by one.
    """
    begin, order = group_by_key(width, moves.classes)
    states, targets = keys_of(moves.first)[order], moves.targets[order]
    hashes = np.zeros(width, dtype=np.uint64)
    for index in range(width):
        for at in range(begin[index], begin[index + 1]):
            salt = np.uint64(states[at] + 1) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (salt ^ np.uint64(targets[at])) * np.uint64(0x9E3779B97F4A7C15)
            hashes[index] += mixed ^ (mixed >> np.uint64(29))
    return begin, states, targets, hashes


@inlined
def _are_equal(
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


@allocating_kernel
def _group_all_columns(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the group of each column of a table, and the first column of each group.

    As for ``group_classes``, except that columns without moves also form a group. Groups are
    numbered by their first columns.
    """
    width = rows.shape[1]
    group, groups = group_classes(moves_by_state(rows), width)
    number_of = np.full(groups + 1, -1, dtype=np.int32)
    representative = np.empty(groups + 1, dtype=np.int64)
    size = 0
    for column in range(width):
        old = group[column] if group[column] != -1 else groups
        if number_of[old] == -1:
            number_of[old], representative[size] = size, column
            size += 1
        group[column] = number_of[old]
    return group, representative[:size]
