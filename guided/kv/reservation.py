"""The slots that a table reserves for new rows, and the copies of rows that go with them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reservation", "SlotCopies"]


class SlotCopies:
    """Rows to copy in the storage, all of them read before any is written."""

    __slots__ = ("sources", "targets")

    def __init__(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        self.sources = sources
        """Slots to read, ``[rows]``."""
        self.targets = targets
        """Slots to write, ``[rows]``; no slot twice."""

    @staticmethod
    def none() -> SlotCopies:
        """Return copies of nothing."""
        return _NONE

    def __len__(self) -> int:
        return len(self.sources)


_NONE: Final = SlotCopies(np.empty(0, np.int64), np.empty(0, np.int64))


class Reservation:
    """Rows set aside for the nodes of one draft tree, after those that a table has committed.

    The arrays are views of the table's own: they are valid until it changes again.
    """

    __slots__ = ("copies", "count", "seen", "start")

    def __init__(
        self,
        start: int,
        seen: NDArray[np.int64],
        count: int,
        copies: SlotCopies,
    ) -> None:
        self.start = start
        """The position of the first seen row; above 0 if a sliding window has moved on."""
        self.seen = seen
        """Slots of the committed rows still held, then of the new ones, ``[rows]``."""
        self.count = count
        """How many of them are new."""
        self.copies = copies
        """To be made before the new rows are written; they give the table its own last block."""

    @property
    def slots(self) -> NDArray[np.int64]:
        """Slots of the new rows, ``[count]``."""
        return self.seen[len(self.seen) - self.count :]

    def part(self, first: int, last: int) -> Reservation:
        """Return the new rows from ``first`` up to ``last``, after all rows before them.

        So the nodes of a tree may be computed in several calls. Copies are left to the whole.
        """
        assert 0 <= first < last <= self.count, f"rows {first} to {last} of {self.count}"
        before = len(self.seen) - self.count
        return Reservation(self.start, self.seen[: before + last], last - first, SlotCopies.none())
