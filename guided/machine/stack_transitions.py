"""The results of exit actions in stacks, in a form that compiled code can read.

Exit actions are numbers; each language defines what they mean. The table is int64 ``[slots, 3]``;
the number of slots is a power of two, and at most half of them are used::

    slot   KEY = stack << 24 | action   TARGET = stack after   ROW = row after
           EMPTY_SLOT for none          NEEDS_EXACT_STATE      DEAD: must not be taken, or,
                                                               beside that, is not known
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EMPTY_SLOT",
    "FIRST_CONDITIONAL",
    "KEY",
    "LABEL_BITS",
    "LAST_UNCONDITIONAL",
    "NEEDS_EXACT_STATE",
    "ROW",
    "TARGET",
    "StackTransitions",
    "transition_key",
]

LAST_UNCONDITIONAL: Final = 4
"""Actions up to this one occur only where they may be taken, unless that depends on a text."""
FIRST_CONDITIONAL: Final = LAST_UNCONDITIONAL + 1
"""From this one on, the stack determines whether an action may be taken."""

KEY: Final = 0
TARGET: Final = 1
ROW: Final = 2
"""Columns of the slots."""
_COLUMNS: Final = 3

EMPTY_SLOT: Final = -1
"""Key of a slot that holds no transition."""
NEEDS_EXACT_STATE: Final = -2
"""In place of a target stack: the transition depends on the exact state, for instance on a text
that was written, which the stack does not have."""
LABEL_BITS: Final = 24
_LEAST_SLOTS: Final = 1024
_SLOT: Final = struct.Struct("3q")


def transition_key(stack: int, action: int) -> int:
    """Return the key of a transition in the table."""
    return stack << LABEL_BITS | action


class StackTransitions:
    """An open-addressing hash table ``slots`` from (stack, exit action) to (stack, row).

    Transitions are only ever added. ``slots`` is a new array after each growth; ``_flat`` is its
    memory, for Python to write single slots.
    """

    def __init__(self) -> None:
        self.used = 0
        self._allocate(_LEAST_SLOTS)

    def __len__(self) -> int:
        return self.used

    def put(self, stack: int, action: int, target: int, row: int) -> None:
        """Add a transition that is not there yet: a second one of its key would never be found.

        ``target`` and ``row`` are what ``Recognizer.transition`` returns, with
        NEEDS_EXACT_STATE and DEAD in their places.

        ``slots`` may be another array afterwards, so its address has to be taken again.
        """
        # At most half full: kernels probe until they find the key or an empty slot.
        if 2 * (self.used + 1) > len(self.slots):
            self._rehash()
        self._insert(transition_key(stack, action), target, row)
        self.used += 1

    def _insert(self, key: int, target: int, row: int) -> None:
        """Write a transition into the first free slot for its key; there must be one."""
        # The shift brings the stack into the low bits, and the multiplication keeps the actions of
        # one stack apart. Products above 63 bits are kept whole here and wrap around in the kernel
        # (guided/masks/machine_kernels.py, ``_find_slot``): the bits up to 2^40 slots are the same.
        # It looks keys up in this way, so change both or none.
        taken, mask = self._flat, len(self.slots) - 1
        slot = (key * 0x9E3779B1 >> LABEL_BITS) & mask
        while taken[_COLUMNS * slot] != EMPTY_SLOT:
            slot = (slot + 1) & mask
        # For a single slot this is ten times as fast as numpy.
        _SLOT.pack_into(taken, _SLOT.size * slot, key, target, row)

    def _allocate(self, size: int) -> None:
        self.slots: NDArray[np.int64] = np.full((size, _COLUMNS), EMPTY_SLOT, dtype=np.int64)
        self._flat = self.slots.reshape(-1).data

    def _rehash(self) -> None:
        """Move all transitions to a larger table; kernels that ran before hold the old one."""
        old = self.slots
        self._allocate(4 * len(old))
        for transition in old[old[:, KEY] != EMPTY_SLOT].tolist():
            self._insert(*transition)
