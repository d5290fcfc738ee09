"""What a table hands out: slots for new rows, and the copies of rows that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reservation", "SlotCopies"]


@dataclass(frozen=True, slots=True, eq=False)
class SlotCopies:
    """Rows to copy in the storage, all of them read before any is written."""

    sources: NDArray[np.int64]
    """Slots to read, ``[rows]``."""
    targets: NDArray[np.int64]
    """Slots to write, ``[rows]``; no slot twice."""

    @classmethod
    def none(cls) -> SlotCopies:
        """Nothing to copy."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Rows set aside for the nodes of one draft tree, behind those a table has committed.

    The arrays are views of the table's own: they hold until it changes again.
    """

    start: int
    """The position of the first seen row; above 0 where a sliding window has moved on."""
    seen: NDArray[np.int64]
    """Slots of the committed rows still held, then of the new ones, ``[rows]``."""
    count: int
    """How many of them are new."""
    is_contiguous: bool
    """Whether ``seen`` counts up by one, so that a slice of the storage shows it."""
    copies: SlotCopies
    """To be made before the new rows are written: a shared block made the table's own."""

    @property
    def slots(self) -> NDArray[np.int64]:
        """Slots of the new rows, ``[count]``."""
        return self.seen[len(self.seen) - self.count :]
