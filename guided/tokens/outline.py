"""What a row of a string is, wherever it stands: equal outlines have equal masks inside the string.

The outline of a row is all that a token can reach from it up to the closing quote, numbered in the
order of a breadth-first search. Strings of different schemas, of different bounds on their length,
and the parts of patterns behind which anything may follow so turn out to be the same.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.tokens.outline_kernels import expand_outline, search_outline
from guided.tokens.packed import Arrays

__all__ = ["Outline", "moves_of", "outline_of"]

_MAX_ROWS: Final = 2048


class Outline:
    """The outline of one row."""

    __slots__ = ("closings", "digest", "fewest", "has_labels", "num_rows")

    def __init__(
        self,
        digest: bytes,
        closings: NDArray[np.int32],
        fewest: int,
        num_rows: int,
        has_labels: bool,
    ) -> None:
        self.digest: Final = digest
        self.closings: Final = closings
        """The rows behind closing quotes, in the order of the search; a row that may be left by
        its label, and goes on by other bytes, stands for all with that label.
        """
        self.fewest: Final = fewest
        """The least number of names that the rows of a rare key can still become, NO_BOUND for
        none."""
        self.num_rows: Final = num_rows
        """Rows that can be reached, without the closing ones."""
        self.has_labels: Final = has_labels
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
    expand_outline(search.found, moves)
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
    size, num_closings, *rest = search_outline(
        rows, cells, byte_maps, row, reach, found, queue, closings, numbers
    )
    return _Search(found[:size], closings[:num_closings].copy(), *rest)
