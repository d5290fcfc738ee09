"""The transition table of a recogniser: rows for states inside a block, laid down in bulk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa
from guided.automata.dfa import DEAD
from guided.automata.shortest import STOP, shortest_ways
from guided.errors import LimitExceededError

__all__ = ["DEAD", "IN_KEY", "KEY_CLOSED", "PLAIN", "STOP", "TransitionTable"]

PLAIN, IN_KEY, KEY_CLOSED = 0, 1, 2
"""Roles of a row: inside the text of a free key, behind its closing quote, or neither."""


class TransitionTable:
    """Rows of all blocks of one recogniser; only ever grows.

    Row ``r`` leads on byte ``b`` to row ``cells[base[r] + byte_maps[kind[r], b]]``, or nowhere if
    that is DEAD. A row with a ``label`` other than DEAD may leave its block: the recogniser then
    resolves the label in the context it is in. ``left`` bounds the bytes of a shortest way to the
    end of the row's scope, ``way`` holds the first of them, STOP where the label is taken. The
    scope is the value that is being written, or, where ``wide``, the container around it.
    ``only`` is the one byte that a row goes on with, DEAD where there is none or a choice, and
    ``exits`` marks rows with a label and no byte to go on with.
    """

    def __init__(self, max_cells: int) -> None:
        self.max_cells = max_cells
        self.num_rows = 0
        self.num_cells = 0
        self.cells = np.empty(1024, dtype=np.int32)
        self.base = np.empty(256, dtype=np.int32)
        self.kind = np.empty(256, dtype=np.int32)
        self.label = np.empty(256, dtype=np.int32)
        self.left = np.empty(256, dtype=np.int64)
        self.way = np.empty(256, dtype=np.int16)
        self.only = np.empty(256, dtype=np.int16)
        self.role = np.empty(256, dtype=np.int8)
        self.wide = np.empty(256, dtype=np.bool_)
        self.exits = np.empty(256, dtype=np.bool_)
        self.byte_maps = np.empty((0, 256), dtype=np.uint8)
        self._map_numbers: dict[bytes, int] = {}

    def add_block(
        self,
        dfa: ByteDfa,
        relabel: Callable[[int], int],
        costs: Mapping[int, int],
        *,
        wide: bool,
        role: NDArray[np.int8] | None = None,
    ) -> int:
        """Lay an automaton down and return the row of its start.

        ``relabel`` gives the recogniser's label for each of the automaton's, ``costs`` the bytes
        from there to the end of the scope. Raises LimitExceededError past ``max_cells``.
        """
        left, way = shortest_ways(dfa, costs)
        states, classes = dfa.next.shape
        start = self.num_rows
        self._reserve(states, states * classes)
        rows = slice(start, start + states)
        cells = np.where(dfa.next == DEAD, DEAD, dfa.next + start)
        self.cells[self.num_cells : self.num_cells + cells.size] = cells.reshape(-1)
        self.base[rows] = self.num_cells + np.arange(states) * classes
        self.kind[rows] = self._map_number(dfa.byte_class)
        labels = np.array(
            [DEAD if v == DEAD else relabel(v) for v in range(-1, dfa.label.max() + 1)]
        )
        self.label[rows] = labels[dfa.label + 1]
        self.left[rows] = left
        self.way[rows] = way
        self.only[rows] = _only_bytes(dfa.next, dfa.byte_class)
        self.role[rows] = PLAIN if role is None else role
        self.wide[rows] = wide
        self.exits[rows] = (self.label[rows] != DEAD) & (dfa.next == DEAD).all(axis=1)
        self.num_rows += states
        self.num_cells += cells.size
        return start

    def add_row(
        self, targets: NDArray[np.int32], *, left: int, way: int, wide: bool = False
    ) -> int:
        """A row that leads to rows already there: int32 ``[256]``, DEAD for nowhere."""
        columns, byte_class = np.unique(targets, return_inverse=True)
        start = self.num_rows
        self._reserve(1, len(columns))
        self.cells[self.num_cells : self.num_cells + len(columns)] = columns
        self.base[start] = self.num_cells
        self.kind[start] = self._map_number(byte_class.reshape(-1).astype(np.uint8))
        self.label[start] = DEAD
        self.left[start] = left
        self.way[start] = way
        live = np.nonzero(targets != DEAD)[0]
        self.only[start] = live[0] if len(live) == 1 else DEAD
        self.role[start] = PLAIN
        self.wide[start] = wide
        self.exits[start] = False
        self.num_rows += 1
        self.num_cells += len(columns)
        return start

    def step(self, row: int, byte: int) -> int:
        """The row behind ``byte`` inside the block, or DEAD."""
        return int(self.cells[self.base[row] + self.byte_maps[self.kind[row], byte]])

    def row_targets(self, row: int) -> NDArray[np.int32]:
        """All 256 targets of a row."""
        targets: NDArray[np.int32] = self.cells[self.base[row] + self.byte_maps[self.kind[row]]]
        return targets

    def check(self) -> None:
        """Raise AssertionError unless every row is well formed and leads only to rows there are."""
        for row in range(self.num_rows):
            targets = self.row_targets(row)
            assert targets.min() >= DEAD and targets.max() < self.num_rows, row
            live = np.nonzero(targets != DEAD)[0]
            only = live[0] if len(live) == 1 else DEAD
            assert self.only[row] == only, (row, self.only[row], only)
            assert self.way[row] == STOP or targets[self.way[row]] != DEAD, row

    def _map_number(self, byte_class: NDArray[np.uint8]) -> int:
        key = byte_class.tobytes()
        if key not in self._map_numbers:
            self._map_numbers[key] = len(self.byte_maps)
            self.byte_maps = np.concatenate([self.byte_maps, byte_class[None]])
        return self._map_numbers[key]

    def _reserve(self, rows: int, cells: int) -> None:
        if self.num_cells + cells > self.max_cells:
            raise LimitExceededError(
                f"the recogniser needs more than {self.max_cells} cells",
                limit=self.max_cells,
                field="constraint",
                hint="ask for less at once: shorter strings, smaller enums, fewer members",
            )
        if self.num_cells + cells > len(self.cells):
            self.cells = _grown(self.cells, self.num_cells + cells)
        if self.num_rows + rows > len(self.base):
            for name in ("base", "kind", "label", "left", "way", "only", "role", "wide", "exits"):
                setattr(self, name, _grown(getattr(self, name), self.num_rows + rows))


_Item = TypeVar("_Item", bound=np.generic)


def _grown(array: NDArray[_Item], needed: int) -> NDArray[_Item]:
    grown = np.empty(max(needed, 2 * len(array)), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def _only_bytes(table: NDArray[np.int32], byte_class: NDArray[np.uint8]) -> NDArray[np.int16]:
    sizes = np.bincount(byte_class, minlength=table.shape[1])
    live = table != DEAD
    alone = (live * sizes).sum(axis=1) == 1
    byte_of_class = np.array(
        [int(np.argmax(byte_class == index)) for index in range(table.shape[1])], dtype=np.int16
    )
    which = byte_of_class[np.argmax(live & (sizes > 0), axis=1)]
    return np.where(alone, which, DEAD).astype(np.int16)
