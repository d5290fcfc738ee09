"""What a row of a string is, wherever it stands: equal outlines have equal masks inside the string.

The outline of a row is all that a token can reach from it up to the closing quote, numbered in the
order of a breadth-first search. Strings of different schemas, of different bounds on their length,
and the parts of patterns behind which anything may follow so turn out to be the same.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.automata.kernel import inlined, kernel
from guided.recognizer.table import (
    BASE,
    BEAT,
    CLOSE_STRING,
    DEAD,
    ENDS,
    EXITS,
    IN_RARE_KEY,
    KEY_CLOSED,
    KIND,
    LABEL,
    NEED,
    NO_BOUND,
    ROLE,
    START,
)
from guided.tokens.packed import Arrays

__all__ = ["Outline", "is_closing", "moves_of", "outline_of"]

_MAX_ROWS = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """The outline of one row."""

    digest: bytes
    closings: NDArray[np.int32]
    """The rows behind closing quotes, in the order of the search; a row that may be left by its
    label, and goes on by other bytes, stands for all with that label.
    """
    fewest: int
    """The least number of names that the rows of a rare key can still become, NO_BOUND for none."""
    num_rows: int
    """Rows that can be reached, without the closing ones."""
    has_labels: bool
    """Whether some of them may be left by their label."""


def outline_of(arrays: Arrays, row: int, reach: int) -> Outline | None:
    """The outline of a row in a string as far as ``reach`` bytes lead, ``None`` for other rows.

    Also for those from which a string is still to begin, or that lead to very many rows.
    """
    search = _searched(arrays, row, reach)
    if not len(search.found):
        return None
    digest = hashlib.blake2b(search.found.data, digest_size=16).digest()
    return Outline(digest, search.closings, search.fewest, search.num_rows, search.has_labels)


def moves_of(arrays: Arrays, row: int, reach: int) -> NDArray[np.int32]:
    """Where each byte leads from the rows of an outline, int32 ``[rows, 258]``, the first first.

    That is one more than the number of a row in the order of the search, 0 where a byte may not
    follow, and ``-1 - i`` for the closing row ``i``. In the last columns stands how rows count.
    """
    search = _searched(arrays, row, reach)
    moves = np.empty((search.num_rows, 258), dtype=np.int32)
    _expand(search.found, moves)
    return moves


class _Scratch(threading.local):
    """Memory that searches work in."""

    def __init__(self) -> None:
        self.found: NDArray[np.int32] = np.empty(_MAX_ROWS * 516, dtype=np.int32)
        self.queue: NDArray[np.int32] = np.empty(_MAX_ROWS, dtype=np.int32)
        self.closings: NDArray[np.int32] = np.empty(_MAX_ROWS, dtype=np.int32)


_scratch = _Scratch()


class _Search(NamedTuple):
    found: NDArray[np.int32]
    closings: NDArray[np.int32]
    num_rows: int
    fewest: int
    has_labels: bool


def _searched(arrays: Arrays, row: int, reach: int) -> _Search:
    """What is found from a row on, until the next search; nothing where there is no outline."""
    rows, cells, byte_maps = arrays[:3]
    found, queue, closings = _scratch.found, _scratch.queue, _scratch.closings
    numbers = np.zeros(len(rows), dtype=np.int32)
    size, num_closings, *rest = _search(
        rows, cells, byte_maps, row, reach, found, queue, closings, numbers
    )
    return _Search(found[:size], closings[:num_closings].copy(), *rest)


@inlined
def is_closing(rows, row):  # type: ignore[no-untyped-def]
    """Whether a string ends with the byte that leads to the row."""
    return rows[row, EXITS] != 0 or rows[row, BEAT] == CLOSE_STRING or rows[row, ROLE] == KEY_CLOSED


@kernel
def _search(  # type: ignore[no-untyped-def]
    rows, cells, byte_maps, row, reach, found, queue, closings, numbers
):
    """Writes down what it finds: its length, the number of closing rows, that of other rows, the
    fewest ends, and whether any row may be left by its label.

    Of a row that is how it counts, one more than the number of the closing row that has its label
    or 0, then number and last byte of each run of bytes that lead to the same row. ``numbers`` is
    all zero to begin with: one more than the number of a row, negative for a closing one. From rows
    ``reach`` bytes away nothing is looked for. The length is zero where there is no outline.
    """
    queue[0], numbers[row] = row, 1
    done, count, size, num_closings, fewest = 0, 1, 0, 0, NO_BOUND
    has_labels = False
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
                return 0, 0, 0, NO_BOUND, False
            if closing == num_closings:
                closings[closing] = current
                num_closings += 1
            found[size + 2] = closing + 1
        size += 3
        if depth == reach:
            found[size], found[size + 1] = 0, 255
            size += 2
            done += 1
            continue
        base, kind = rows[current, BASE], rows[current, KIND]
        ahead = cells[base + byte_maps[kind, 0]]
        for byte in range(256):
            target = ahead
            if byte < 255:
                ahead = cells[base + byte_maps[kind, byte + 1]]
                if ahead == target:
                    continue
            if target != DEAD and numbers[target] == 0:
                if is_closing(rows, target):
                    closings[num_closings] = target
                    num_closings += 1
                    numbers[target] = -num_closings
                elif rows[target, BEAT] == START:
                    return 0, 0, 0, NO_BOUND, False
                else:
                    queue[count] = target
                    count += 1
                    numbers[target] = count
                if count == len(queue) or num_closings == len(closings):
                    return 0, 0, 0, NO_BOUND, False
            found[size] = 0 if target == DEAD else numbers[target]
            found[size + 1] = byte
            size += 2
        done += 1
    return size, num_closings, count, fewest, has_labels


@kernel
def _expand(found, moves):  # type: ignore[no-untyped-def]
    """Fill in by byte what a search wrote down by runs of bytes."""
    at = 0
    for row in range(len(moves)):
        moves[row, 256], moves[row, 257] = found[at], found[at + 1]
        at += 3
        first = 0
        while first < 256:
            last = found[at + 1]
            for byte in range(first, last + 1):
                moves[row, byte] = found[at]
            first = last + 1
            at += 2
