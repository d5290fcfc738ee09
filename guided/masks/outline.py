"""What a row of a string is, wherever it stands: equal outlines have equal masks inside the string.

The outline of a row is all that a token can reach from it up to the closing quote, numbered in the
order of a breadth-first search. Strings of different schemas, of different bounds on their length,
and the parts of patterns after which anything may follow so turn out to be the same.

Where many rows can be reached the outline ends at a *horizon*, some bytes away: rows from which a
pattern may still repeat something forty times or forty-one have the same outline, and the few
tokens that are longer go on from there as they do after a closing quote.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.masks.machine_kernels import MachineArrays
from guided.masks.outline_kernels import search_outline
from guided.masks.scratch import OutlineScratch

__all__ = ["NO_HORIZON", "Outline", "outline_of"]

NO_HORIZON: Final = 2**31 - 1
_HORIZON: Final = 16
"""Bytes that few tokens are longer than: with less there are more of them to go on with, with more
fewer rows are alike."""

_MAX_ROWS: Final = 2048
_MAPS: Final = 32
"""Byte maps that a search remembers the runs of: most rows share a few."""


class Outline:
    """The outline of one row."""

    __slots__ = ("closings", "digest", "fewest", "horizon")

    def __init__(
        self, digest: bytes, closings: NDArray[np.int32], fewest: int, horizon: int
    ) -> None:
        self.digest: Final = digest
        """The hash of all that the search found. Rows with equal ones share their masks, so all
        that a mask inside of the string depends on has to be in it; what follows is each row's own.
        """
        self.closings: Final = closings
        """The rows after closing quotes, in the order of the search; a row with an exit action
        that goes on by other bytes, too, stands for all with that action. With a horizon, all other
        rows after them.
        """
        self.fewest: Final = fewest
        """The least number of names that the rows of a rare key can still become, NO_BOUND for
        none."""
        self.horizon: Final = horizon
        """The number of bytes after which tokens leave the outline, NO_HORIZON for none."""


def outline_of(arrays: MachineArrays, row: int, reach: int) -> Outline | None:
    """The outline of a row in a string as far as ``reach`` bytes lead, ``None`` for other rows.

    Also for those from which a string is still to begin, or that lead to very many rows.

    ``reach`` is the length of the longest token: the outline says nothing of what more bytes lead
    to, so it must not be less.
    """
    near = min(reach, _HORIZON)
    search = _searched(arrays, row, near)
    # Where no token is longer (``reach``) none gets to the rows at the horizon: it is none.
    horizon = NO_HORIZON if search.is_complete or near == reach else near
    if not len(search.found):
        return None
    digest = hashlib.sha256(search.found.data).digest()
    closings = search.closings
    if horizon != NO_HORIZON:
        closings = np.concatenate([closings, search.rows])
    return Outline(digest, closings, search.fewest, horizon)


_scratch: Final = OutlineScratch(_MAX_ROWS, _MAPS)


class _Search(NamedTuple):
    """What ``search_outline`` found; ``found`` and ``rows`` are scratch of the next search, too."""

    found: NDArray[np.int32]
    closings: NDArray[np.int32]
    rows: NDArray[np.int32]
    """In the order of the search, without the closing ones."""
    fewest: int
    is_complete: bool


def _searched(arrays: MachineArrays, row: int, reach: int) -> _Search:
    """What is found from a row on, until the next search; nothing where there is no outline.

    Only ``closings`` is copied out of scratch memory: ``Outline`` keeps it. ``numbers`` is made
    anew for each search, which needs it all zero.
    """
    found, queue, closings = _scratch.found, _scratch.queue, _scratch.closings
    numbers = np.zeros(len(arrays.rows), dtype=np.int32)
    size, num_closings, num_rows, fewest, is_complete = search_outline(
        arrays, row, reach, found, queue, closings, numbers, _scratch.runs
    )
    return _Search(
        found[:size], closings[:num_closings].copy(), queue[:num_rows], fewest, is_complete
    )
