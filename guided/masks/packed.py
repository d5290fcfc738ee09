"""What compiled code works on: the arrays of a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.machine.facts import HARMLESS, KNOWLEDGE
from guided.machine.recognizer import Recognizer
from guided.masks.machine_kernels import MachineArrays
from guided.runtime.addresses import addresses_of, enter_address

__all__ = ["PackedMachine"]


class PackedMachine:
    """The arrays of one machine, with what only a vocabulary can tell of its stacks.

    ``quoted`` are the names that one token may begin and close. ``before_work`` is called before
    anything that the machine may have to work for. Not thread-safe, as the machine may grow:
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
        self._judged = 0
        """How many of ``StackTable.with_keys`` were looked at by ``_judge_keys``."""
        self._addressed: list[NDArray[Any]] = list(self.current())
        """The arrays that ``_addresses`` are those of, in the order of ``MachineArrays``."""
        self._addresses = addresses_of(self._addressed)

    def current(self) -> MachineArrays:
        """The arrays as the machine is now; valid until it grows."""
        self._judge_keys()
        table = self._table
        return MachineArrays(
            table.rows, table.cells, table.byte_maps, self._transitions.slots, self._stacks.facts
        )

    def addresses(self) -> NDArray[np.int64]:
        """Those of the current arrays, which stay where they are until this is asked again."""
        if self._judged != len(self._stacks.with_keys):
            self._judge_keys()
        table, before = self._table, self._addressed
        # Before every call of a kernel: mostly no array was replaced by a larger one.
        if table.rows is not before[0]:
            self._enter(0, table.rows)
        if table.cells is not before[1]:
            self._enter(1, table.cells)
        if table.byte_maps is not before[2]:
            self._enter(2, table.byte_maps)
        if self._transitions.slots is not before[3]:
            self._enter(3, self._transitions.slots)
        if self._stacks.facts is not before[4]:
            self._enter(4, self._stacks.facts)
        return self._addresses

    def _enter(self, number: int, array: NDArray[Any]) -> None:
        self._addressed[number] = array
        enter_address(self._addresses, number, array)

    def _judge_keys(self) -> None:
        """Say of new stacks whether one token might begin and close a key that they have.

        That goes into the machine's own facts, so a machine is packed for one vocabulary only.
        """
        stacks = self._stacks
        # Stacks are only ever added, so those up to ``_judged`` need not be looked at again.
        for stack in stacks.with_keys[self._judged :]:
            if self._quoted.isdisjoint(stacks.free_keys(stack)):
                stacks.facts[stack, KNOWLEDGE] = HARMLESS
        self._judged = len(stacks.with_keys)

    def begin_work(self) -> None:
        """Say that the machine is about to be asked for something."""
        self._before_work()

    def resolve(self, stack: int, action: int) -> None:
        """Enter the transition of an exit action into the table that compiled code reads.

        Only for one that a kernel has just found missing: it must not be entered twice. May raise
        LimitExceededError, and then enters nothing.
        """
        self._before_work()
        self._transitions.put(stack, action, *self._machine.transition(stack, action))
