"""What a row of a string is, wherever it stands: equal outlines have equal masks inside the string.

The outline of a row is all that can be reached from it up to the closing quote, numbered in the
order of a breadth-first search. Strings of different schemas, of different bounds on their length,
and the parts of patterns behind which anything may follow so turn out to be the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.recognizer.table import CLOSE_STRING, DEAD, IN_RARE_KEY, KEY_CLOSED, NO_BOUND, START
from guided.tokens.kernel import inlined, kernel
from guided.tokens.packed import BASE, BEAT, ENDS, EXITS, KIND, LABEL, NEED, ROLE, Arrays

__all__ = ["Outline", "is_closing", "outline_of"]

_MAX_ROWS = 512


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """The outline of one row."""

    digest: bytes
    closings: NDArray[np.int32]
    """The rows behind closing quotes, in the order of the search."""
    fewest: int
    """The least number of names that the rows of a rare key can still become, NO_BOUND for none."""


def outline_of(arrays: Arrays, row: int) -> Outline | None:
    """The outline of a row in a string, ``None`` for other rows.

    Also for those that end without a quote, from which a string is still to begin, or that lead to
    very many rows.
    """
    rows, cells, byte_maps = arrays[:3]
    found = np.empty((_MAX_ROWS, 258), dtype=np.int32)
    queue = np.empty(_MAX_ROWS, dtype=np.int32)
    closings = np.empty(_MAX_ROWS, dtype=np.int32)
    numbers = np.zeros(len(rows), dtype=np.int32)
    count, num_closings, fewest = _search(
        rows, cells, byte_maps, row, found, queue, closings, numbers
    )
    if count == 0:
        return None
    digest = hashlib.blake2b(found[:count].tobytes(), digest_size=16).digest()
    return Outline(digest, closings[:num_closings].copy(), fewest)


@inlined
def is_closing(rows, row):  # type: ignore[no-untyped-def]
    """Whether a string ends with the byte that leads to the row."""
    return rows[row, EXITS] != 0 or rows[row, BEAT] == CLOSE_STRING or rows[row, ROLE] == KEY_CLOSED


@kernel
def _search(rows, cells, byte_maps, row, found, queue, closings, numbers):  # type: ignore[no-untyped-def]
    """Number of rows and of closing rows, and the fewest ends; no rows where there is no outline.

    ``numbers`` is all zero to begin with: one more than the number of a row, negative for a closing
    one.
    """
    queue[0], numbers[row] = row, 1
    done, count, num_closings, fewest = 0, 1, 0, NO_BOUND
    while done < count:
        current = queue[done]
        if rows[current, LABEL] != DEAD:
            return 0, 0, 0
        if rows[current, ROLE] == IN_RARE_KEY:
            fewest = min(fewest, rows[current, ENDS])
        found[done, 0] = rows[current, BEAT]
        found[done, 1] = rows[current, NEED]
        for byte in range(256):
            target = cells[rows[current, BASE] + byte_maps[rows[current, KIND], byte]]
            if target == DEAD:
                found[done, byte + 2] = 0
                continue
            if numbers[target] == 0:
                if is_closing(rows, target):
                    closings[num_closings] = target
                    num_closings += 1
                    numbers[target] = -num_closings
                elif rows[target, BEAT] == START:
                    return 0, 0, 0
                else:
                    queue[count] = target
                    count += 1
                    numbers[target] = count
                if count == len(queue) or num_closings == len(closings):
                    return 0, 0, 0
            found[done, byte + 2] = numbers[target]
        done += 1
    return count, num_closings, fewest
