"""What a row of a string is, wherever it stands: equal outlines have equal masks inside the string.

The outline of a row is all that a token can reach from it up to the closing quote, numbered in the
order of a breadth-first search. Strings of different schemas, of different bounds on their length,
and the parts of patterns behind which anything may follow so turn out to be the same.

Where many rows can be reached the outline ends at a *horizon*, some bytes away: rows from which a
pattern may still repeat something forty times or forty-one have the same outline, and the few
tokens that are longer go on behind it as they do behind a closing quote.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.masks.outline_kernels import expand_outline, find_wide, search_outline
from guided.masks.packed import Arrays

__all__ = ["MAX_WIDE", "NO_HORIZON", "Outline", "moves_of", "outline_of"]

MAX_WIDE: Final = 512
"""Wide rows that are looked for."""
NO_HORIZON: Final = 2**31 - 1
_HORIZON: Final = 16
"""Bytes that few tokens are longer than: with less there are more of them to go on with, with more
fewer rows are alike."""

_MAX_ROWS: Final = 2048
_MAPS: Final = 32
"""Byte maps that a search remembers the runs of: most rows share a few."""


class Outline:
    """The outline of one row."""

    __slots__ = ("closings", "digest", "fewest", "has_labels", "horizon", "num_rows")

    def __init__(
        self,
        digest: bytes,
        closings: NDArray[np.int32],
        fewest: int,
        num_rows: int,
        has_labels: bool,
        horizon: int,
    ) -> None:
        self.digest: Final = digest
        self.closings: Final = closings
        """The rows behind closing quotes, in the order of the search; a row that may be left by
        its label, and goes on by other bytes, stands for all with that label. With a horizon, all
        other rows behind them.
        """
        self.fewest: Final = fewest
        """The least number of names that the rows of a rare key can still become, NO_BOUND for
        none."""
        self.num_rows: Final = num_rows
        """Rows that can be reached, without the closing ones."""
        self.has_labels: Final = has_labels
        """Whether some of them may be left by their label."""
        self.horizon: Final = horizon
        """The number of bytes behind which tokens leave the outline, NO_HORIZON for none."""


def outline_of(arrays: Arrays, row: int, reach: int) -> Outline | None:
    """The outline of a row in a string as far as ``reach`` bytes lead, ``None`` for other rows.

    Also for those from which a string is still to begin, or that lead to very many rows.
    """
    horizon, search = _looked_ahead(arrays, row, reach)
    if not len(search.found):
        return None
    digest = hashlib.sha256(search.found.data).digest()
    closings = search.closings
    if horizon != NO_HORIZON:
        closings = np.concatenate([closings, search.rows])
    return Outline(digest, closings, search.fewest, len(search.rows), search.has_labels, horizon)


def _looked_ahead(arrays: Arrays, row: int, reach: int) -> tuple[int, _Search]:
    """The horizon of a row, with what is found up to it."""
    near = min(reach, _HORIZON)
    search = _searched(arrays, row, near)
    if search.is_complete or near == reach:
        return NO_HORIZON, search
    loops = np.zeros((len(arrays[0]), 3), dtype=np.uint64)
    if find_wide(*arrays[:3], row, np.empty(MAX_WIDE, dtype=np.int32), loops):
        # Masks of patterns that may match anywhere are quick to make, if all is known of them.
        search = _searched(arrays, row, reach)
        if len(search.found):
            return NO_HORIZON, search
        search = _searched(arrays, row, near)
    return near, search


def moves_of(arrays: Arrays, row: int, reach: int) -> NDArray[np.int32]:
    """Where each byte leads from the rows of an outline, int32 ``[rows, 258]``, the first first.

    That is one more than the number of a row in the order of the search, 0 where a byte may not
    follow, and ``-1 - i`` for the closing row ``i``. In the last columns stands how rows count.
    """
    search = _searched(arrays, row, reach)
    moves = np.empty((len(search.rows), 258), dtype=np.int32)
    expand_outline(search.found, moves)
    return moves


class _Scratch(threading.local):
    """Memory that searches work in."""

    def __init__(self) -> None:
        self.found: NDArray[np.int32] = np.empty(_MAX_ROWS * 259, dtype=np.int32)
        self.queue: NDArray[np.int32] = np.empty(_MAX_ROWS, dtype=np.int32)
        self.closings: NDArray[np.int32] = np.empty(_MAX_ROWS, dtype=np.int32)
        self.runs: NDArray[np.int32] = np.empty((_MAPS, 258), dtype=np.int32)


_scratch: Final = _Scratch()


class _Search(NamedTuple):
    found: NDArray[np.int32]
    closings: NDArray[np.int32]
    rows: NDArray[np.int32]
    """In the order of the search, without the closing ones."""
    fewest: int
    has_labels: bool
    is_complete: bool


def _searched(arrays: Arrays, row: int, reach: int) -> _Search:
    """What is found from a row on, until the next search; nothing where there is no outline."""
    rows, cells, byte_maps = arrays[:3]
    found, queue, closings = _scratch.found, _scratch.queue, _scratch.closings
    numbers = np.zeros(len(rows), dtype=np.int32)
    size, num_closings, num_rows, *rest = search_outline(
        rows, cells, byte_maps, row, reach, found, queue, closings, numbers, _scratch.runs
    )
    return _Search(found[:size], closings[:num_closings].copy(), queue[:num_rows], *rest)
