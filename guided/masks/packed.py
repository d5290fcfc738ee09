"""What compiled code works on: the arrays of a machine, and scratch memory for walks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.machine.facts import HARMLESS, KNOWLEDGE
from guided.machine.recognizer import Recognizer
from guided.masks.machine_kernels import MachineArrays
from guided.masks.mask import Mask
from guided.masks.trie import TokenTrie
from guided.masks.walk_path import DEFERRED_WIDTH, LARGE_SHARE, PATH_WIDTH, SITE_WIDTH
from guided.runtime.addresses import addresses_of, set_address

__all__ = ["PackedMachine", "Scratch"]


class Scratch:
    """Memory that walks over one trie work in; free between two walks of a thread."""

    def __init__(self, trie: TokenTrie) -> None:
        self.path: NDArray[np.int64] = np.empty((trie.longest + 3, PATH_WIDTH), dtype=np.int64)
        """See ``walk_path``."""
        self.words: Mask = np.empty(trie.words, dtype=np.int32)
        self.uncertain: NDArray[np.int32] = np.zeros((len(trie), SITE_WIDTH), dtype=np.int32)
        """Sites to be walked once more is known. It begins as zeros, since ``record_uncertain``
        writes only the node and the entry of each."""
        self.deferred: NDArray[np.int64] = np.empty((LARGE_SHARE, DEFERRED_WIDTH), dtype=np.int64)
        """Nodes with a state each; none is below another, which bounds their number."""
        self.addresses = addresses_of((self.path, self.words, self.uncertain, self.deferred))


class PackedMachine:
    """The arrays of one machine, and what only a vocabulary determines about its stacks.

    ``quoted`` are the names that one token may begin and close. ``before_work`` is called before
    anything that may make the machine work. Not thread-safe, because the machine may grow:
    callers hold the lock of the ``CompiledConstraint``.
    """

    def __init__(
        self,
        machine: Recognizer,
        quoted: frozenset[bytes],
        before_work: Callable[[], object] = lambda: None,
    ) -> None:
        self._machine = machine
        self._before_work = before_work
        self._table = machine.parts.table
        self._transitions = machine.parts.transitions
        self._stacks = machine.parts.stacks
        self._quoted = quoted
        self._num_checked = 0
        """How many of ``StackTable.with_keys`` were looked at by ``_mark_harmless_keys``."""
        self._addressed: list[NDArray[Any]] = list(self.current())
        """The arrays at ``_addresses``, in the order of ``MachineArrays``."""
        self._addresses = addresses_of(self._addressed)

    def current(self) -> MachineArrays:
        """Return the arrays as the machine is now; valid until it grows."""
        self._mark_harmless_keys()
        table = self._table
        return MachineArrays(
            table.rows, table.cells, table.byte_maps, self._transitions.slots, self._stacks.facts
        )

    def row(self, row: int) -> list[int]:
        """Return the columns of a row, see ``table_layout``."""
        columns: list[int] = self._table.rows[row].tolist()
        return columns

    def addresses(self) -> NDArray[np.int64]:
        """Return the addresses of the current arrays, which stay in place until the next call."""
        if self._num_checked != len(self._stacks.with_keys):
            self._mark_harmless_keys()
        table, before = self._table, self._addressed
        # This runs before every call of a kernel: mostly no array was replaced by a larger one.
        if table.rows is not before[0]:
            self._set_array(0, table.rows)
        if table.cells is not before[1]:
            self._set_array(1, table.cells)
        if table.byte_maps is not before[2]:
            self._set_array(2, table.byte_maps)
        if self._transitions.slots is not before[3]:
            self._set_array(3, self._transitions.slots)
        if self._stacks.facts is not before[4]:
            self._set_array(4, self._stacks.facts)
        return self._addresses

    def _set_array(self, number: int, array: NDArray[Any]) -> None:
        self._addressed[number] = array
        set_address(self._addresses, number, array)

    def _mark_harmless_keys(self) -> None:
        """Mark new stacks as HARMLESS if no token can begin and close a key that they have.

        That goes into the machine's own facts, so a machine is packed for one vocabulary only.
        """
        stacks = self._stacks
        # Stacks are only ever added, so those up to ``_num_checked`` need not be looked at again.
        for stack in stacks.with_keys[self._num_checked :]:
            if self._quoted.isdisjoint(stacks.additional_names(stack)):
                stacks.facts[stack, KNOWLEDGE] = HARMLESS
        self._num_checked = len(stacks.with_keys)

    def begin_work(self) -> None:
        """Call ``before_work``, as the machine is about to be used."""
        self._before_work()

    def resolve(self, stack: int, action: int) -> None:
        """Add the transition of an exit action to the table that compiled code reads.

        Only for one that a kernel has just found missing: it must not be added twice. May raise
        LimitExceededError, and then adds nothing.
        """
        self._before_work()
        self._transitions.put(stack, action, *self._machine.transition(stack, action))
