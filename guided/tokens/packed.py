"""What compiled code reads of a recogniser."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.automata.addresses import addresses_of
from guided.recognizer.contexts import HARMLESS, KNOWLEDGE
from guided.recognizer.recognizer import Recognizer

__all__ = ["Arrays", "PackedMachine"]

Arrays: TypeAlias = tuple[
    NDArray[np.int32],  # rows, see ``TransitionTable``
    NDArray[np.int32],  # cells
    NDArray[np.uint8],  # byte maps [kinds, 256]
    NDArray[np.int64],  # joints, see ``JointTable``
    NDArray[np.int32],  # facts about contexts, see ``Contexts``
]


class PackedMachine:
    """The arrays of one recogniser, with what only a vocabulary can tell of its contexts."""

    def __init__(self, machine: Recognizer, quoted: frozenset[bytes]) -> None:
        self._table = machine.table
        self._joints = machine.joints
        self._contexts = machine.contexts
        self._free_keys_of = machine.free_keys_of
        self._quoted = quoted
        self._judged = 0
        self._addressed = self.current()
        """The arrays that ``_addresses`` are those of."""
        self._addresses = addresses_of(self._addressed)

    def current(self) -> Arrays:
        """The arrays as the recogniser is now; valid until it grows."""
        table, contexts = self._table, self._contexts
        if self._judged != len(contexts.with_keys):
            for context in contexts.with_keys[self._judged :]:
                if self._quoted.isdisjoint(self._free_keys_of(context)):
                    contexts.facts[context, KNOWLEDGE] = HARMLESS
            self._judged = len(contexts.with_keys)
        return table.rows, table.cells, table.byte_maps, self._joints.slots, contexts.facts

    def addresses(self) -> NDArray[np.int64]:
        """Those of the current arrays, which stay where they are until this is asked again."""
        arrays, before = self.current(), self._addressed
        if not (
            arrays[0] is before[0]
            and arrays[1] is before[1]
            and arrays[2] is before[2]
            and arrays[3] is before[3]
            and arrays[4] is before[4]
        ):
            self._addressed, self._addresses = arrays, addresses_of(arrays)
        return self._addresses
