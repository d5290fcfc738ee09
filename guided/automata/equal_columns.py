"""Columns of a table that no row tells apart, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["equal_columns"]


@njit(cache=True, nogil=True)
def equal_columns(rows):  # type: ignore[no-untyped-def]
    """The class of each column, uint8 ``[columns]``, and a column of each class."""
    count, width = rows.shape
    hashes = np.zeros(width, dtype=np.uint64)
    for row in range(count):
        for column in range(width):
            mixed = hashes[column] + np.uint64(rows[row, column] + 1)
            hashes[column] = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    byte_class = np.empty(width, dtype=np.uint8)
    representative = np.empty(width, dtype=np.int64)
    classes = 0
    for column in range(width):
        found = classes
        for number in range(classes):
            other = representative[number]
            if hashes[other] != hashes[column]:
                continue
            row = 0
            while row < count and rows[row, other] == rows[row, column]:
                row += 1
            if row == count:
                found = number
                break
        if found == classes:
            representative[classes] = column
            classes += 1
        byte_class[column] = found
    return byte_class, representative[:classes]
