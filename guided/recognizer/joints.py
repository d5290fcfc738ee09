"""What becomes of a context when a label is taken in it, in a form that compiled code can read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EMPTY_SLOT", "EXACT", "LABEL_BITS", "JointTable", "joint_key"]

EMPTY_SLOT = -1
"""Key of a slot that holds no joint."""
EXACT = -2
"""In place of a target context: it depends on what was written, which the context does not tell."""
LABEL_BITS = 24
_LEAST_SLOTS = 1024


def joint_key(context: int, label: int) -> int:
    """The key of a joint in the table."""
    return context << LABEL_BITS | label


class JointTable:
    """An open-addressing hash table from (context, label) to (context, row).

    Three arrays of the same length, a power of two: ``keys`` int64 (``joint_key``), ``contexts``
    and ``rows`` int32. A row of DEAD stands for a label that must not be taken.
    """

    def __init__(self) -> None:
        self.used = 0
        self._allocate(_LEAST_SLOTS)

    def __len__(self) -> int:
        return self.used

    def put(self, context: int, label: int, target: int, row: int) -> None:
        """Add a joint that is not there yet."""
        if 2 * (self.used + 1) > len(self.keys):
            self._rehash()
        self._insert(joint_key(context, label), target, row)
        self.used += 1

    def _insert(self, key: int, target: int, row: int) -> None:
        # The contexts, which follow one another, are spread by the multiplication.
        mask = len(self.keys) - 1
        slot = (key * 0x9E3779B1 >> LABEL_BITS) & mask
        while self.keys[slot] != EMPTY_SLOT:
            slot = (slot + 1) & mask
        self.keys[slot] = key
        self.contexts[slot] = target
        self.rows[slot] = row

    def _allocate(self, size: int) -> None:
        self.keys: NDArray[np.int64] = np.full(size, EMPTY_SLOT, dtype=np.int64)
        self.contexts: NDArray[np.int32] = np.empty(size, dtype=np.int32)
        self.rows: NDArray[np.int32] = np.empty(size, dtype=np.int32)

    def _rehash(self) -> None:
        old = (self.keys, self.contexts, self.rows)
        self._allocate(4 * len(self.keys))
        used = old[0] != EMPTY_SLOT
        for joint in zip(*(array[used].tolist() for array in old), strict=True):
            self._insert(*joint)
