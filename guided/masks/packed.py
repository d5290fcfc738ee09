"""What compiled code reads of a recogniser."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.facts import HARMLESS, KNOWLEDGE
from guided.machine.recognizer import Recognizer
from guided.runtime.addresses import addresses_of, enter_address

__all__ = ["Arrays", "PackedMachine"]

Arrays: TypeAlias = tuple[
    NDArray[np.int32],  # rows, see ``TransitionTable``
    NDArray[np.int32],  # cells
    NDArray[np.uint8],  # byte maps [kinds, 256]
    NDArray[np.int64],  # transitions, see ``StackTransitions``
    NDArray[np.int32],  # facts about stacks, see ``facts``
]


class PackedMachine:
    """The arrays of one recogniser, with what only a vocabulary can tell of its stacks."""

    def __init__(self, machine: Recognizer, quoted: frozenset[bytes]) -> None:
        self._table = machine.table
        self._transitions = machine.transitions
        self._stacks = machine.stacks
        self._free_keys_of = machine.free_keys_of
        self._quoted = quoted
        self._judged = 0
        self._addressed = self.current()
        """The arrays that ``_addresses`` are those of."""
        self._addresses = addresses_of(self._addressed)

    def current(self) -> Arrays:
        """The arrays as the recogniser is now; valid until it grows."""
        table, stacks = self._table, self._stacks
        if self._judged != len(stacks.with_keys):
            for stack in stacks.with_keys[self._judged :]:
                if self._quoted.isdisjoint(self._free_keys_of(stack)):
                    stacks.facts[stack, KNOWLEDGE] = HARMLESS
            self._judged = len(stacks.with_keys)
        return table.rows, table.cells, table.byte_maps, self._transitions.slots, stacks.facts

    def addresses(self) -> NDArray[np.int64]:
        """Those of the current arrays, which stay where they are until this is asked again."""
        arrays, before = self.current(), self._addressed
        if arrays[0] is not before[0]:
            enter_address(self._addresses, 0, arrays[0])
        if arrays[1] is not before[1]:
            enter_address(self._addresses, 1, arrays[1])
        if arrays[2] is not before[2]:
            enter_address(self._addresses, 2, arrays[2])
        if arrays[3] is not before[3]:
            enter_address(self._addresses, 3, arrays[3])
        if arrays[4] is not before[4]:
            enter_address(self._addresses, 4, arrays[4])
        self._addressed = arrays
        return self._addresses
