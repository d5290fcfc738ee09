"""What walks from a row have to know of it, as plain Python values."""

from __future__ import annotations

from typing import Final, NamedTuple

from guided.recognizer.table import (
    DEAD,
    HIGH,
    IN_KEY,
    IN_RARE_KEY,
    LABEL,
    LIKE,
    LOW,
    ONLY,
    PLAIN,
    ROLE,
)
from guided.tokens.blank import BLANKS
from guided.tokens.outline import Outline, outline_of
from guided.tokens.packed import Arrays
from guided.tokens.row_kernels import count_bytes, loop_behind

__all__ = ["COUNTS_NOTHING", "RowTraits", "row_traits"]

COUNTS_NOTHING: Final = 2**32
_FEW_BYTES: Final = 32
"""A row that fewer bytes lead on from is quicker to walk than to remember."""


class RowTraits(NamedTuple):
    """The traits of one row."""

    is_key: bool
    """Whether it is inside of a free key."""
    low: int
    high: int
    """The bounds that it counts against; ``high`` is ``COUNTS_NOTHING`` where it counts nothing."""
    like: int
    """The row whose mask it corrects, DEAD for none."""
    is_blank: bool
    """Whether any white space may stand in it, and little else."""
    outline: Outline | None = None
    """What it shares its mask by, for a row in a string."""
    most: int = 0
    """The greatest count of its inner mask."""
    loop: int = DEAD
    """Another row that most bytes lead to, and stay in: its inner mask is nearly the same."""


_IN_CHAIN = RowTraits(False, 0, COUNTS_NOTHING, DEAD, False)
"""The traits of a row that one byte alone leads on from."""


def row_traits(arrays: Arrays, row: int, reach: int) -> RowTraits:
    """The traits of a row, all but ``most``; tokens are at most ``reach`` bytes long."""
    rows, cells, byte_maps = arrays[:3]
    packed = rows[row].tolist()
    if packed[ONLY] != DEAD and packed[ROLE] == PLAIN and packed[HIGH] < 0:
        return _IN_CHAIN
    high, like = packed[HIGH], packed[LIKE]
    is_key = packed[ROLE] in (IN_KEY, IN_RARE_KEY)
    high = COUNTS_NOTHING if high < 0 else high
    if like != DEAD:
        return RowTraits(is_key, packed[LOW], high, like, False)
    num_bytes, num_loops = count_bytes(rows, cells, byte_maps, row)
    few = num_bytes < _FEW_BYTES
    outline = None if few else outline_of(arrays, row, reach)
    is_free = high == COUNTS_NOTHING and packed[LABEL] == DEAD
    is_blank = num_loops == len(BLANKS) and is_free and outline is None
    loop = DEAD if outline is None else int(loop_behind(rows, cells, byte_maps, row))
    return RowTraits(is_key, packed[LOW], high, like, is_blank, outline, loop=loop)
