"""What compiled code reads of a recogniser: its rows packed into one array, and its joints."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.recognizer.contexts import KNOWN
from guided.recognizer.recognizer import Recognizer
from guided.recognizer.table import NO_GATE
from guided.tokens.kernel import kernel

__all__ = [
    "BASE",
    "BEAT",
    "ENDS",
    "EXITS",
    "HARMLESS",
    "HIGH",
    "KIND",
    "LABEL",
    "LIKE",
    "LOW",
    "NEED",
    "ROLE",
    "Arrays",
    "PackedMachine",
]

BASE, KIND, LABEL, EXITS, ROLE, BEAT, NEED, LOW, HIGH, ENDS, LIKE = range(11)
"""Columns of the packed rows; HIGH is -1 where a row counts nothing."""
_COLUMNS = 11

HARMLESS = 3
"""What may be known of the keys in a context, besides NONE, KNOWN and UNKNOWN: none of them is one
that a token can begin and close."""

Arrays: TypeAlias = tuple[
    NDArray[np.int32],  # rows [rows, 11]
    NDArray[np.int32],  # cells
    NDArray[np.uint8],  # byte maps [kinds, 256]
    NDArray[np.int64],  # keys of the joints
    NDArray[np.int32],  # their contexts
    NDArray[np.int32],  # their rows
    NDArray[np.int8],  # what is known of the keys in each context, HARMLESS among them
    NDArray[np.int32],  # how many texts a state in each context holds, but for keys
    NDArray[np.int32],  # how many names are taken at most in each context
]


@kernel
def pack_rows(  # type: ignore[no-untyped-def]
    packed, first, last, base, kind, label, exits, role, beat, need, ends, like, gate, gates
):
    """Write some rows of a table into the packed ones."""
    for row in range(first, last):
        packed[row, BASE], packed[row, KIND], packed[row, LABEL] = base[row], kind[row], label[row]
        packed[row, EXITS], packed[row, ROLE], packed[row, BEAT] = exits[row], role[row], beat[row]
        packed[row, NEED], packed[row, ENDS], packed[row, LIKE] = need[row], ends[row], like[row]
        packed[row, LOW], packed[row, HIGH] = 0, -1
        if gate[row] != NO_GATE:
            packed[row, LOW], packed[row, HIGH] = gates[gate[row], 0], gates[gate[row], 1]


class PackedMachine:
    """The arrays of one recogniser, brought up to date when it has grown.

    The columns of a row lie side by side, so that a step of a walk reads one line of the cache,
    and a call into compiled code hands over few arrays: each costs it some 150 ns.
    """

    def __init__(self, machine: Recognizer, quoted: frozenset[bytes]) -> None:
        self._machine = machine
        self._quoted = quoted
        self._knowledge: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._num_contexts = 0
        self._rows: NDArray[np.int32] = np.empty((256, _COLUMNS), dtype=np.int32)
        self._num_rows = 0
        self._current: Arrays | None = None

    def current(self) -> Arrays:
        """The arrays as the recogniser is now; valid until it grows."""
        machine = self._machine
        table, joints, contexts = machine.table, machine.joints, machine.contexts
        current = self._current
        if (
            current is not None
            and self._num_rows == table.num_rows
            and self._num_contexts == len(contexts.frames)
            and current[3] is joints.keys
        ):
            return current
        if self._num_rows != table.num_rows:
            self._pack(self._num_rows, table.num_rows)
        if self._num_contexts != len(contexts):
            self._classify(self._num_contexts, len(contexts))
        self._current = (
            self._rows,
            table.cells,
            table.byte_maps,
            joints.keys,
            joints.contexts,
            joints.rows,
            self._knowledge,
            contexts.depths,
            contexts.taken,
        )
        return self._current

    def _pack(self, first: int, last: int) -> None:
        if last > len(self._rows):
            grown = np.empty((max(last, 2 * len(self._rows)), _COLUMNS), dtype=np.int32)
            grown[:first] = self._rows[:first]
            self._rows = grown
        table = self._machine.table
        pack_rows(
            self._rows,
            first,
            last,
            table.base,
            table.kind,
            table.label,
            table.exits,
            table.role,
            table.beat,
            table.need,
            table.ends,
            table.like,
            table.gate,
            table.gates,
        )
        self._num_rows = last

    def _classify(self, first: int, last: int) -> None:
        contexts = self._machine.contexts
        if len(self._knowledge) != len(contexts.knowledge):
            grown = np.empty_like(contexts.knowledge)
            grown[:first] = self._knowledge[:first]
            self._knowledge = grown
        self._knowledge[first:last] = contexts.knowledge[first:last]
        for context in range(first, last):
            if contexts.knowledge[context] == KNOWN and self._quoted.isdisjoint(
                self._machine.free_keys_of(context)
            ):
                self._knowledge[context] = HARMLESS
        self._num_contexts = last
