"""Compiled code that searches for an outline.

A search records of each row that it finds, in order::

    COUNT_EVENT  MIN_REMAINING  closing row with its exit action + 1, or 0  run  run ...

A run of bytes that lead to the same row is ``row number << 8 | last byte``. Rows are numbered from
1 in the order in which they are found, closing rows from -1 downwards; the number is 0 for nowhere,
and ``_BEYOND`` where nothing was searched. Runs cover all 256 bytes, so one that ends with byte 255
ends its row, and different searches never have the same record. It is hashed (``outline_of``), so
no row's number in the table may be in it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import START
from guided.machine.table_layout import (
    BASE,
    COUNT_EVENT,
    IN_RARE_KEY,
    KIND,
    LABEL,
    MIN_REMAINING,
    NAMES_LEFT,
    NO_BOUND,
    ROLE,
)
from guided.masks.machine_kernels import (
    Addresses,
    MachineArrays,
    is_closing,
    machine_at,
    target_of,
)
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = ["num_bytes_leading_on", "search_outline"]

_BEYOND: Final = 2**22
"""In place of a row's number: what the bytes lead to was not searched."""
_BYTE_BITS: Final = 8


@kernel
def num_bytes_leading_on(addresses: Addresses, row: int) -> int:
    """Return how many bytes lead on from a row; what only its exit action reads does not count.

    ``addresses`` are those of a ``PackedMachine``.
    """
    machine, leading = machine_at(addresses), 0
    for byte in range(256):
        leading += target_of(machine, row, byte) != DEAD
    return leading


@inlined
def _runs_of(byte_maps: NDArray[np.uint8], kind: int, runs: NDArray[np.int32]) -> int:
    """Return the place in ``runs`` of a map's runs of one class.

    A line of ``runs`` has the last bytes of the runs, ascending; in column 256 the map; in 257 the
    number of runs. Maps with the same place replace each other, so the caller reads the line at
    once.
    """
    place = kind & (len(runs) - 1)
    if runs[place, 256] != kind:
        runs[place, 256], count = kind, 0
        for byte in range(255):
            if byte_maps[kind, byte] != byte_maps[kind, byte + 1]:
                runs[place, count] = byte
                count += 1
        runs[place, count], runs[place, 257] = 255, count + 1
    return place


@inlined
def _closing_with(
    action: int, closing_rows: NDArray[np.int32], num_closing_rows: int, rows: NDArray[np.int32]
) -> int:
    """Return the index of the first closing row with this exit action, or ``num_closing_rows``."""
    number = 0
    while number < num_closing_rows and rows[closing_rows[number], LABEL] != action:
        number += 1
    return number


@kernel
def search_outline(
    machine: MachineArrays,
    row: int,
    max_bytes: int,
    found: NDArray[np.int32],
    queue: NDArray[np.int32],
    closing_rows: NDArray[np.int32],
    numbers: NDArray[np.int32],
    runs: NDArray[np.int32],
) -> tuple[int, int, int, int, bool]:
    """Record what can be reached from a row, breadth first, up to closing rows.

    Returns the length of the record (0: there is no outline), the number of closing rows, that of
    other rows, the least NAMES_LEFT of a rare key, and whether everything that can be reached was
    surely searched; without an outline only the length means anything. ``found``, which must have
    room for 259 numbers per place in ``queue``, gets the record, and ``numbers``, all zero at
    first, the number of each row. ``queue`` gets the rows in the order of their numbers, and
    ``closing_rows`` the closing ones: those that ``is_closing`` names and, for each exit action met
    elsewhere, the first row with it. If either gets full there is no outline. Nothing is searched
    from ``max_bytes`` bytes on. ``runs``, int32 ``[a power of two, 258]``, is for ``_runs_of``.
    """
    rows, cells, byte_maps = machine.rows, machine.cells, machine.byte_maps
    # A table has thousands of rows but few maps: the runs of a map are found once per search.
    runs[:, 256] = -1
    queue[0], numbers[row] = row, 1
    done, count, size, num_closing_rows, min_names_left = 0, 1, 0, 0, NO_BOUND
    is_complete, depth, level_end = True, 0, 1
    while done < count:
        if done == level_end:
            depth, level_end = depth + 1, count
        current = queue[done]
        done += 1
        if rows[current, ROLE] == IN_RARE_KEY:
            min_names_left = min(min_names_left, rows[current, NAMES_LEFT])
        found[size], found[size + 1] = rows[current, COUNT_EVENT], rows[current, MIN_REMAINING]
        found[size + 2] = 0
        if rows[current, LABEL] != DEAD:
            closing = _closing_with(rows[current, LABEL], closing_rows, num_closing_rows, rows)
            if closing == num_closing_rows:
                closing_rows[closing] = current
                num_closing_rows += 1
                if num_closing_rows == len(closing_rows):
                    return 0, 0, 0, NO_BOUND, True
            found[size + 2] = closing + 1
        size += 3
        if depth == max_bytes:
            # No token is long enough to continue from here, or the horizon ends here.
            is_complete = False
            found[size] = (_BEYOND << _BYTE_BITS) | 255
            size += 1
            continue
        base, kind = rows[current, BASE], rows[current, KIND]
        place, before = _runs_of(byte_maps, kind, runs), DEAD - 1
        for run in range(runs[place, 257]):
            byte = runs[place, run]
            target = cells[base + byte_maps[kind, byte]]
            # Two neighbouring classes that lead to the same row are one run: extend the last one.
            if target == before:
                found[size - 1] = (found[size - 1] & ~255) | byte
                continue
            before = target
            if target != DEAD and numbers[target] == 0:
                if is_closing(rows, target):
                    closing_rows[num_closing_rows] = target
                    num_closing_rows += 1
                    numbers[target] = -num_closing_rows
                elif rows[target, COUNT_EVENT] == START:
                    # Another string begins inside: its counts would be mixed with those of this
                    # one.
                    return 0, 0, 0, NO_BOUND, True
                else:
                    queue[count] = target
                    count += 1
                    numbers[target] = count
                if count == len(queue) or num_closing_rows == len(closing_rows):
                    return 0, 0, 0, NO_BOUND, True
            number = 0 if target == DEAD else numbers[target]
            found[size] = (number << _BYTE_BITS) | byte
            size += 1
    return size, num_closing_rows, count, min_names_left, is_complete
