"""The slots one sequence holds in the key/value cache: committed rows, then reserved ones.

A row map, for a capacity of 8 with 3 rows committed and 4 reserved::

    0   1   2 | 3   4   5   6 | 7
    committed |   reserved    | spare

A commit keeps some of the reserved rows, in order, behind the committed ones and gives the
others back. Rows kept out of place have to move, which the commit says and the storage does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from guided.errors import OutOfMemoryError

__all__ = ["Reservation", "RowMove", "SequenceSlots"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Rows set aside for the nodes of one draft tree."""

    start: int
    count: int


@dataclass(frozen=True, slots=True)
class RowMove:
    """One row that a commit keeps at another place than it was written to."""

    source: int
    target: int


class SequenceSlots:
    """How many rows of a sequence are committed and reserved; made and ended by a ``SlotPool``."""

    __slots__ = ("_capacity", "_committed", "_reserved")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._committed = 0
        self._reserved = 0

    @property
    def capacity(self) -> int:
        """Rows the sequence holds in all."""
        return self._capacity

    @property
    def committed(self) -> int:
        """Rows that belong to the sequence for good."""
        return self._committed

    @property
    def reserved(self) -> int:
        """Rows set aside until the next commit."""
        return self._reserved

    def reserve(self, count: int) -> Reservation:
        """Set aside the next ``count`` rows; the committed length does not change."""
        assert self._reserved == 0, f"{self._reserved} rows are reserved already"
        spare = self._capacity - self._committed
        if count > spare:
            raise OutOfMemoryError(
                f"{count} rows were asked for behind {self._committed} committed ones, "
                f"but only {spare} of {self._capacity} are spare"
            )
        self._reserved = count
        return Reservation(start=self._committed, count=count)

    def commit(self, kept: Sequence[int]) -> tuple[RowMove, ...]:
        """Keep the reserved rows with these offsets, in order, and give the others back.

        Offsets 0, 1, 3 of a reservation at 10 → rows 10, 11, 13 → the move 13 → 12.
        """
        assert all(a < b for a, b in pairwise(kept)), f"unordered rows {kept!r}"
        assert not kept or (kept[0] >= 0 and kept[-1] < self._reserved), (
            f"rows {kept!r} are not all among the {self._reserved} reserved"
        )
        start = self._committed
        moves = tuple(
            RowMove(source=start + offset, target=start + place)
            for place, offset in enumerate(kept)
            if offset != place
        )
        self._committed += len(kept)
        self._reserved = 0
        return moves

    def check(self) -> None:
        """Raise unless 0 <= committed, 0 <= reserved and both together fit the capacity."""
        assert self._committed >= 0, f"{self._committed} rows committed"
        assert self._reserved >= 0, f"{self._reserved} rows reserved"
        assert self._committed + self._reserved <= self._capacity, (
            f"{self._committed} committed + {self._reserved} reserved > {self._capacity} rows"
        )
