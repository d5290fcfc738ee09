"""What a row leads to, wherever it stands: rows of equal outlines have equal masks inside of them.

The outline of a row is all that a token can reach from it up to the closing quote of a string, or
to an exit action, numbered in the order of a breadth-first search. So strings of different
schemas, strings with different bounds on their length, and the parts of patterns after which
anything may follow turn out to be the same.

If many rows can be reached, the outline ends at a *horizon*, some bytes away: rows from which a
pattern may still repeat something forty times or forty-one have the same outline, and the few
tokens that are longer continue from there as they do after a closing quote.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.masks.machine_kernels import MachineArrays
from guided.masks.outline_kernels import search_outline

__all__ = ["NO_HORIZON", "Outline", "outline_of"]

NO_HORIZON: Final = 2**31 - 1
_HORIZON: Final = 16
"""Few tokens are longer than this. With fewer bytes more tokens would have to continue beyond the
horizon; with more bytes fewer rows would be alike."""

_MAX_ROWS: Final = 2048
_MAPS: Final = 32
"""Byte maps whose runs a search remembers: most rows share a few maps."""


class Outline(NamedTuple):
    """The outline of one row."""

    digest: bytes
    """The hash of all that the search found. Rows with equal digests share their masks, so
    everything that a mask inside the string depends on is in it, and for one trie their ``horizon``
    is the same; the other fields may differ."""
    closing_rows: NDArray[np.int32]
    """The rows after closing quotes or at exit actions, in the order of the search.

    A row whose exit action is followed by other bytes as well stands for all rows with that
    action. With a horizon, all other rows found follow them.
    """
    min_names_left: int
    """The least number of names that the rows of a rare key can still become, NO_BOUND for
    none."""
    horizon: int
    """The number of bytes after which tokens leave the outline; NO_HORIZON for none."""


def outline_of(arrays: MachineArrays, row: int, max_bytes: int) -> Outline | None:
    """Return the outline of a row as far as ``max_bytes`` bytes lead, or ``None``.

    Most are of rows in strings, but those of numbers and grammars have outlines too. There is none
    where a string begins on the way, as its code points would be counted with those before it, and
    where very many rows are reached.

    ``max_bytes`` is the length of the longest token: the outline says nothing about what more bytes
    lead to, so it must not be less.
    """
    searched_bytes = min(max_bytes, _HORIZON)
    # Of large arrays only the pages that are written take memory and time.
    found = np.empty(_MAX_ROWS * 259, dtype=np.int32)
    queue, closing_rows = np.empty((2, _MAX_ROWS), dtype=np.int32)
    numbers = np.zeros(len(arrays.rows), dtype=np.int32)
    runs = np.empty((_MAPS, 258), dtype=np.int32)
    size, num_closing_rows, num_rows, min_names_left, is_complete = search_outline(
        arrays, row, searched_bytes, found, queue, closing_rows, numbers, runs
    )
    if not size:
        return None
    digest = hashlib.sha256(found[:size].data).digest()
    # If the search went as far as the longest token, no token gets past its end: no horizon.
    if is_complete or searched_bytes == max_bytes:
        return Outline(digest, closing_rows[:num_closing_rows].copy(), min_names_left, NO_HORIZON)
    closing_rows = np.concatenate([closing_rows[:num_closing_rows], queue[:num_rows]])
    return Outline(digest, closing_rows, min_names_left, searched_bytes)
