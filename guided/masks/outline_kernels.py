"""The search for an outline, compiled by numba."""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.machine.block import CLOSE_STRING, NO_BEAT, START
from guided.machine.table_layout import (
    BASE,
    BEAT,
    ENDS,
    EXITS,
    IN_RARE_KEY,
    KEY_CLOSED,
    KIND,
    LABEL,
    NEED,
    NO_BOUND,
    ROLE,
)
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = [
    "DONE",
    "PLAIN_BYTES",
    "UNKNOWN",
    "WIDE",
    "expand_outline",
    "find_wide",
    "is_closing",
    "search_outline",
]

PLAIN_BYTES = tuple(byte for byte in range(0x20, 0x7F) if byte not in b'"\\')
"""What mostly may follow in a string in any order."""
UNKNOWN, WIDE, DONE = np.uint64(0), np.uint64(1), np.uint64(2)
"""What is known of the loops of a row."""

_BEYOND: Final = 2**22
"""In place of the number of a row: what bytes lead to was not looked for."""
_BYTE_BITS: Final = 8


@inlined
def is_closing(rows, row):  # type: ignore[no-untyped-def]
    """Whether a string ends with the byte that leads to the row."""
    return rows[row, EXITS] != 0 or rows[row, BEAT] == CLOSE_STRING or rows[row, ROLE] == KEY_CLOSED


@inlined
def _runs_of(byte_maps, kind, runs):  # type: ignore[no-untyped-def]
    """The place in ``runs`` where the last bytes of a map's runs of one class stand."""
    place = kind & (len(runs) - 1)
    if runs[place, 256] != kind:
        runs[place, 256], count = kind, 0
        for byte in range(255):
            if byte_maps[kind, byte] != byte_maps[kind, byte + 1]:
                runs[place, count] = byte
                count += 1
        runs[place, count], runs[place, 257] = 255, count + 1
    return place


@kernel
def search_outline(  # type: ignore[no-untyped-def]
    rows, cells, byte_maps, row, reach, found, queue, closings, numbers, runs
):
    """Writes down what it finds: its length, the number of closing rows, that of other rows, the
    fewest ends, whether any row may be left by its label, and whether all that can be reached was
    looked at.

    Of a row that is how it counts, one more than the number of the closing row that has its label
    or 0, then number and last byte of each run of bytes that lead to the same row, in one.
    ``numbers`` is all zero to begin with: one more than the number of a row, negative for a closing
    one. From rows ``reach`` bytes away nothing is looked for. The length is zero where there is no
    outline. In ``runs``, int32 ``[a power of two, 258]``, it keeps where the classes of maps end.
    """
    runs[:, 256] = -1
    queue[0], numbers[row] = row, 1
    done, count, size, num_closings, fewest = 0, 1, 0, 0, NO_BOUND
    has_labels, is_complete = False, True
    depth, level_end = 0, 1
    while done < count:
        if done == level_end:
            depth, level_end = depth + 1, count
        current = queue[done]
        if rows[current, ROLE] == IN_RARE_KEY:
            fewest = min(fewest, rows[current, ENDS])
        found[size], found[size + 1] = rows[current, BEAT], rows[current, NEED]
        found[size + 2] = 0
        if rows[current, LABEL] != DEAD:
            has_labels = True
            closing = 0
            while closing < num_closings and (
                rows[closings[closing], LABEL] != rows[current, LABEL]
            ):
                closing += 1
            if closing == len(closings):
                return 0, 0, 0, NO_BOUND, False, True
            if closing == num_closings:
                closings[closing] = current
                num_closings += 1
            found[size + 2] = closing + 1
        size += 3
        if depth == reach:
            is_complete = False
            found[size] = (_BEYOND << _BYTE_BITS) | 255
            size += 1
            done += 1
            continue
        base, kind = rows[current, BASE], rows[current, KIND]
        place = _runs_of(byte_maps, kind, runs)
        before = DEAD - 1
        for run in range(runs[place, 257]):
            byte = runs[place, run]
            target = cells[base + byte_maps[kind, byte]]
            if target == before:
                found[size - 1] = (found[size - 1] & ~255) | byte
                continue
            before = target
            if target != DEAD and numbers[target] == 0:
                if is_closing(rows, target):
                    closings[num_closings] = target
                    num_closings += 1
                    numbers[target] = -num_closings
                elif rows[target, BEAT] == START:
                    return 0, 0, 0, NO_BOUND, False, True
                else:
                    queue[count] = target
                    count += 1
                    numbers[target] = count
                if count == len(queue) or num_closings == len(closings):
                    return 0, 0, 0, NO_BOUND, False, True
            number = 0 if target == DEAD else numbers[target]
            found[size] = (number << _BYTE_BITS) | byte
            size += 1
        done += 1
    return size, num_closings, count, fewest, has_labels, is_complete


@kernel
def expand_outline(found, moves):  # type: ignore[no-untyped-def]
    """Fill in by byte what a search wrote down by runs of bytes."""
    at = 0
    for row in range(len(moves)):
        moves[row, 256], moves[row, 257] = found[at], found[at + 1]
        at += 3
        first = 0
        while first < 256:
            number, last = found[at] >> _BYTE_BITS, found[at] & 255
            for byte in range(first, last + 1):
                moves[row, byte] = 0 if number == _BEYOND else number
            first = last + 1
            at += 1


@kernel
def find_wide(rows, cells, byte_maps, row, queue, loops):  # type: ignore[no-untyped-def]
    """Mark the wide rows that plain bytes lead to: from which plain bytes lead to wide rows only.

    Returns whether the row itself is one.

    Such are the rows of a pattern that may match anywhere: its text may go on as it likes. Only
    rows that count nothing are wide.
    """
    if rows[row, BEAT] != NO_BEAT:
        return False
    queue[0], loops[row, 2] = row, WIDE
    done, count = 0, 1
    while done < count:
        base, kind = rows[queue[done], BASE], rows[queue[done], KIND]
        for byte in PLAIN_BYTES:
            target = cells[base + byte_maps[kind, byte]]
            if target == DEAD or rows[target, BEAT] != NO_BEAT or is_closing(rows, target):
                continue
            if loops[target, 2] != WIDE and count < len(queue):
                queue[count], loops[target, 2] = target, WIDE
                count += 1
        done += 1
    narrowed = True
    while narrowed:
        narrowed = False
        for index in range(count - 1, -1, -1):
            current = queue[index]
            if loops[current, 2] != WIDE:
                continue
            base, kind = rows[current, BASE], rows[current, KIND]
            for byte in PLAIN_BYTES:
                target = cells[base + byte_maps[kind, byte]]
                if target == DEAD or loops[target, 2] != WIDE:
                    loops[current, 2] = UNKNOWN
                    narrowed = True
                    break
    return loops[row, 2] == WIDE
