"""Columns of a table that no row tells apart, compiled by numba."""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.automata.kernel import making_kernel

__all__ = ["NONE", "SEVERAL", "column_groups", "equal_columns", "joint_columns"]

NONE: Final = -1
SEVERAL: Final = -2
"""In place of the one row that leads on in a column."""


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
def column_groups(rows):  # type: ignore[no-untyped-def]
    """The group of each column, int32 ``[columns]``, and a column of each group.

    Columns of nothing but -1 are in none, and have -1.
    """
    group, representative = _grouped(rows)
    for number in range(len(representative)):
        first = representative[number]
        if (rows[:, first] == -1).all():
            kept = np.concatenate((representative[:number], representative[number + 1 :]))
            for column in range(len(group)):
                if group[column] == number:
                    group[column] = -1
                elif group[column] > number:
                    group[column] -= 1
            return group, kept
    return group, representative


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
