"""Columns of a table that no row tells apart, compiled by numba."""

from __future__ import annotations

from typing import Final

import numpy as np

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
"""In place of the one row that leads on in a column."""
_FEW_ROWS: Final = 16


@making_kernel
def equal_columns(rows):  # type: ignore[no-untyped-def]
    """The class of each column, uint8 ``[columns]``, and a column of each class."""
    group, representative = _grouped(rows)
    return group.astype(np.uint8), representative


@making_kernel
def joint_columns(rows, byte_column, places, apart):  # type: ignore[no-untyped-def]
    """The columns of some rows, int32 ``[all, columns]``, each class of equal ones once.

    Those that are told ``apart``, bool ``[columns]``, and that some of the rows lead on by, are
    classes of their own. ``byte_column``, uint8 ``[256]``, has by byte its column, and each has
    one. Returns the class of each byte, uint8 ``[256]``, and by class: what its column holds, and
    behind it the column's number if it is one told apart, else -1, int32 ``[classes, places + 1]``;
    which of the rows alone leads on, NONE or SEVERAL; and a byte of it.
    """
    count, width = len(places), rows.shape[1]
    chosen = np.full((count + 1, width), -1, dtype=np.int32)
    for number in range(count):
        for column in range(width):
            target = rows[places[number], column]
            chosen[number, column] = target
            if target != -1 and apart[column]:
                chosen[count, column] = column
    group_of, representative = _grouped(chosen)
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
def column_groups(moves, width):  # type: ignore[no-untyped-def]
    """The group of each column, equal ones in one, int32 ``[width]``, and how many there are.

    Columns without moves are in none, and have -1.
    """
    first, columns, targets = moves
    count = len(first) - 1
    room = 16
    while room < 2 * width:
        room *= 2
    slots = np.full(room, -1, dtype=np.int32)
    hashes = np.zeros(width, dtype=np.uint64)
    begin = np.zeros(width + 1, dtype=np.int32)
    # Most columns are told apart by the first rows: all others are looked at as a whole.
    few = min(count, _FEW_ROWS)
    everything = np.ones(width, dtype=np.bool_)
    _add_rows(moves, 0, few, everything, hashes, begin)
    open_ones = _sharing(hashes, slots)
    for column in range(width):
        open_ones[column] |= begin[column + 1] == 0
    _add_rows(moves, few, count, open_ones, hashes, begin)
    for column in range(width):
        begin[column + 1] = begin[column] + (begin[column + 1] if open_ones[column] else 0)
    place = begin[:-1].copy()
    cells = np.empty((begin[width], 2), dtype=np.int32)
    if begin[width]:
        for row in range(count):
            for at in range(first[row], first[row + 1]):
                column = columns[at]
                if open_ones[column]:
                    cells[place[column], 0], cells[place[column], 1] = row, targets[at]
                    place[column] += 1
    group = np.full(width, -1, dtype=np.int32)
    representative = np.empty(width, dtype=np.int32)
    groups = 0
    slots[:] = -1
    for column in range(width):
        if not open_ones[column]:
            group[column] = groups
            groups += 1
            continue
        size = begin[column + 1] - begin[column]
        if size == 0:
            continue
        slot = np.int64(hashes[column] >> np.uint64(20)) & (room - 1)
        while slots[slot] != -1:
            other = representative[slots[slot]]
            if hashes[other] == hashes[column] and begin[other + 1] - begin[other] == size:
                at = 0
                while (
                    at < size
                    and cells[begin[other] + at, 0] == cells[begin[column] + at, 0]
                    and cells[begin[other] + at, 1] == cells[begin[column] + at, 1]
                ):
                    at += 1
                if at == size:
                    break
            slot = (slot + 1) & (room - 1)
        if slots[slot] == -1:
            slots[slot] = groups
            representative[groups] = column
            groups += 1
        group[column] = slots[slot]
    return group, groups


@inlined
def _add_rows(moves, low, high, wanted, hashes, counts):  # type: ignore[no-untyped-def]
    """Add the moves of some rows to the hashes of wanted columns, and to what they count."""
    first, columns, targets = moves
    for row in range(low, high):
        salt = np.uint64(row + 1) * np.uint64(0xBF58476D1CE4E5B9)
        for at in range(first[row], first[row + 1]):
            column = columns[at]
            if wanted[column]:
                mixed = (salt ^ np.uint64(targets[at])) * np.uint64(0x9E3779B97F4A7C15)
                hashes[column] += mixed ^ (mixed >> np.uint64(29))
                counts[column + 1] += 1


@making_kernel
def _sharing(hashes, slots):  # type: ignore[no-untyped-def]
    """Which columns have the hash of another one. ``slots`` are all -1, and are written to."""
    found = np.zeros(len(hashes), dtype=np.bool_)
    for column in range(len(hashes)):
        slot = np.int64(hashes[column] >> np.uint64(20)) & (len(slots) - 1)
        while slots[slot] != -1 and hashes[slots[slot]] != hashes[column]:
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] == -1:
            slots[slot] = column
        else:
            found[column] = found[slots[slot]] = True
    return found


@making_kernel
def _grouped(rows):  # type: ignore[no-untyped-def]
    """The group of each column, equal ones in one, int32 ``[columns]``, and a column of each."""
    count, width = rows.shape
    hashes = np.zeros(width, dtype=np.uint64)
    for row in range(count):
        for column in range(width):
            mixed = hashes[column] + np.uint64(rows[row, column] + 1)
            hashes[column] = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    group = np.empty(width, dtype=np.int32)
    representative = np.empty(width, dtype=np.int64)
    groups = 0
    room = 16
    while room < 2 * width:
        room *= 2
    slots = np.full(room, -1, dtype=np.int32)
    for column in range(width):
        slot = np.int64(hashes[column] >> np.uint64(20)) & (room - 1)
        while slots[slot] != -1:
            other = representative[slots[slot]]
            row = 0
            if hashes[other] == hashes[column]:
                while row < count and rows[row, other] == rows[row, column]:
                    row += 1
                if row == count:
                    break
            slot = (slot + 1) & (room - 1)
        if slots[slot] == -1:
            slots[slot] = groups
            representative[groups] = column
            groups += 1
        group[column] = slots[slot]
    return group, representative[:groups]
