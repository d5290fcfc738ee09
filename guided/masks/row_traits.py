"""What walks from a row have to know of it, as plain Python values."""

from __future__ import annotations

from typing import Final

from guided.machine.table import (
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
from guided.masks.blank import BLANKS
from guided.masks.outline import Outline, outline_of
from guided.masks.packed import Arrays
from guided.masks.row_kernels import count_bytes, loop_behind

__all__ = ["COUNTS_NOTHING", "RowTraits", "row_traits"]

COUNTS_NOTHING: Final = 2**32
_FEW_BYTES: Final = 32
"""A row that fewer bytes lead on from is quicker to walk than to remember."""


class RowTraits:
    """The traits of one row."""

    __slots__ = ("high", "is_blank", "is_key", "like", "loop", "low", "most", "outline")

    def __init__(
        self,
        is_key: bool,
        low: int,
        high: int,
        like: int,
        is_blank: bool,
        outline: Outline | None = None,
        loop: int = DEAD,
        most: int = 0,
    ) -> None:
        self.is_key: Final = is_key
        """Whether it is inside of a free key."""
        self.low: Final = low
        self.high: Final = high
        """The bounds that it counts against, COUNTS_NOTHING where it counts nothing."""
        self.like: Final = like
        """The row whose mask it corrects, DEAD for none."""
        self.is_blank: Final = is_blank
        """Whether any white space may stand in it, and little else."""
        self.outline: Final = outline
        """What it shares its mask by, for a row in a string."""
        self.loop: Final = loop
        """Another row that most bytes lead to, and stay in: its inner mask is nearly the same."""
        self.most: Final = most
        """The greatest count of its inner mask."""

    def counting_to(self, most: int) -> RowTraits:
        """The traits with the greatest count of the inner mask."""
        return RowTraits(
            self.is_key,
            self.low,
            self.high,
            self.like,
            self.is_blank,
            self.outline,
            self.loop,
            most,
        )


_IN_CHAIN: Final = RowTraits(False, 0, COUNTS_NOTHING, DEAD, False)
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
    return RowTraits(is_key, packed[LOW], high, like, is_blank, outline, loop)
