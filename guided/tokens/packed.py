"""What compiled code reads of a recogniser: its rows packed into one array, and its joints."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.recognizer.contexts import KNOWN
from guided.recognizer.json_machine import JsonMachine

__all__ = [
    "BASE",
    "BEAT",
    "ENDS",
    "EXITS",
    "HARMLESS",
    "HIGH",
    "KIND",
    "LABEL",
    "LOW",
    "NEED",
    "ROLE",
    "Arrays",
    "PackedMachine",
]

BASE, KIND, LABEL, EXITS, ROLE, BEAT, NEED, LOW, HIGH, ENDS = range(10)
"""Columns of the packed rows; HIGH is -1 where a row counts nothing."""
_COLUMNS = 10

HARMLESS = 3
"""What may be known of the keys in a context, besides NONE, KNOWN and UNKNOWN: none of them is one
that a token can begin and close."""

Arrays: TypeAlias = tuple[
    NDArray[np.int32],  # rows [rows, 10]
    NDArray[np.int32],  # cells
    NDArray[np.uint8],  # byte maps [kinds, 256]
    NDArray[np.int64],  # keys of the joints
    NDArray[np.int32],  # their contexts
    NDArray[np.int32],  # their rows
    NDArray[np.int8],  # what is known of the keys in each context, HARMLESS among them
    NDArray[np.int32],  # how many texts a state in each context holds, but for keys
    NDArray[np.int32],  # how many names are taken at most in each context
]


class PackedMachine:
    """The arrays of one recogniser, brought up to date when it has grown.

    The columns of a row lie side by side, so that a step of a walk reads one line of the cache,
    and a call into compiled code hands over few arrays: each costs it some 150 ns.
    """

    def __init__(self, machine: JsonMachine, quoted: frozenset[bytes]) -> None:
        self._machine = machine
        self._quoted = quoted
        self._knowledge: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._num_contexts = 0
        self._rows: NDArray[np.int32] = np.empty((256, _COLUMNS), dtype=np.int32)
        self._num_rows = 0

    def current(self) -> Arrays:
        """The arrays as the recogniser is now; valid until it grows."""
        machine = self._machine
        table, joints = machine.table, machine.joints
        if self._num_rows != table.num_rows:
            self._pack(self._num_rows, table.num_rows)
        if self._num_contexts != len(machine.contexts):
            self._classify(self._num_contexts, len(machine.contexts))
        return (
            self._rows,
            table.cells,
            table.byte_maps,
            joints.keys,
            joints.contexts,
            joints.rows,
            self._knowledge,
            machine.contexts.depths,
            machine.contexts.taken,
        )

    def _pack(self, first: int, last: int) -> None:
        if last > len(self._rows):
            grown = np.empty((max(last, 2 * len(self._rows)), _COLUMNS), dtype=np.int32)
            grown[:first] = self._rows[:first]
            self._rows = grown
        table = self._machine.table
        new, rows = self._rows[first:last], slice(first, last)
        new[:, BASE] = table.base[rows]
        new[:, KIND] = table.kind[rows]
        new[:, LABEL] = table.label[rows]
        new[:, EXITS] = table.exits[rows]
        new[:, ROLE] = table.role[rows]
        new[:, BEAT] = table.beat[rows]
        new[:, NEED] = table.need[rows]
        new[:, ENDS] = table.ends[rows]
        new[:, LOW], new[:, HIGH] = 0, -1
        gate = table.gate[rows]
        counting = gate >= 0
        if counting.any():
            new[counting, LOW] = table.gates[gate[counting], 0]
            new[counting, HIGH] = table.gates[gate[counting], 1]
        self._num_rows = last

    def _classify(self, first: int, last: int) -> None:
        contexts = self._machine.contexts
        if len(self._knowledge) != len(contexts.knowledge):
            grown = np.empty_like(contexts.knowledge)
            grown[:first] = self._knowledge[:first]
            self._knowledge = grown
        for context in range(first, last):
            known = contexts.knowledge[context]
            if known == KNOWN and self._quoted.isdisjoint(self._machine.free_keys_of(context)):
                known = HARMLESS
            self._knowledge[context] = known
        self._num_contexts = last
