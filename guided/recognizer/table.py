"""The transition table of a recogniser: rows for states inside a block, laid down in bulk."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.automata.dfa import DEAD
from guided.errors import LimitExceededError
from guided.recognizer.block import (
    CLOSE_STRING,
    INSIDE,
    NO_BEAT,
    START,
    STOP,
    TICK,
    Block,
)

__all__ = [
    "CLOSE_STRING",
    "DEAD",
    "INSIDE",
    "IN_KEY",
    "IN_RARE_KEY",
    "KEY_CLOSED",
    "NO_BEAT",
    "NO_BOUND",
    "NO_GATE",
    "PLAIN",
    "START",
    "STOP",
    "TICK",
    "TransitionTable",
]

PLAIN, IN_KEY, KEY_CLOSED, IN_RARE_KEY = 0, 1, 2, 3
"""Roles of a row: inside the text of a free key, behind its closing quote, or neither. A rare key
can go on in a limited number of ways only, all of which may be taken."""
NO_GATE = -1
NO_BOUND = 2**31 - 1

_UNSET = {
    "base": 0,
    "kind": 0,
    "label": DEAD,
    "left": 0,
    "way": STOP,
    "aim": DEAD,
    "only": DEAD,
    "role": PLAIN,
    "exits": False,
    "gate": NO_GATE,
    "beat": NO_BEAT,
    "need": 0,
    "like": DEAD,
    "ends": NO_BOUND,
}
"""The arrays of the rows, and what they hold where a new row does not say otherwise."""


class TransitionTable:
    """Rows of all blocks of one recogniser; only ever grows.

    Row ``r`` leads on byte ``b`` to row ``cells[base[r] + byte_maps[kind[r], b]]``, or nowhere if
    that is DEAD. A row with a ``label`` other than DEAD may leave its block: the recogniser then
    resolves the label in the context it is in. ``left`` is the number of bytes to the nearest label
    along ``way`` (STOP where it stands), and ``aim`` is that label. ``only`` is the one byte that a
    row goes on with, DEAD where there is none or a choice, and ``exits`` marks rows with a label
    and no byte to go on with.

    Some rows count code points, or characters of white space, against the bounds
    ``gates[gate[r]]``: ``beat`` says what entering the row means to the count, and ``need`` how
    many are still to come at least. ``like`` is the row that a row was laid over, DEAD for none.
    Inside of a rare key ``ends`` is the number of names that it can still become.
    """

    def __init__(self, max_cells: int) -> None:
        self.max_cells = max_cells
        self.num_rows = 0
        self.num_cells = 0
        self.cells = np.empty(1024, dtype=np.int32)
        self.base = np.empty(0, dtype=np.int32)
        self.kind = np.empty(0, dtype=np.int32)
        self.label = np.empty(0, dtype=np.int32)
        self.left = np.empty(0, dtype=np.int64)
        self.way = np.empty(0, dtype=np.int16)
        self.aim = np.empty(0, dtype=np.int32)
        self.only = np.empty(0, dtype=np.int16)
        self.role = np.empty(0, dtype=np.int8)
        self.exits = np.empty(0, dtype=np.bool_)
        self.gate = np.empty(0, dtype=np.int32)
        self.beat = np.empty(0, dtype=np.int8)
        self.need = np.empty(0, dtype=np.int32)
        self.like = np.empty(0, dtype=np.int32)
        self.ends = np.empty(0, dtype=np.int32)
        self.byte_maps = self._maps = _SINGLE_BYTES
        self.gates = np.empty((0, 2), dtype=np.int32)
        self._map_numbers: dict[bytes, int] = {}
        self._widths: dict[int, int] = {}
        self._edge_maps: dict[tuple[int, ...], int] = {}
        self._overlay_kinds: dict[tuple[int, tuple[int, ...]], int] = {}
        self._gate_numbers: dict[tuple[int, int | None], int] = {}

    def add_block(
        self,
        block: Block,
        labels: Mapping[int, int],
        role: NDArray[np.int8] | None = None,
        ends: NDArray[np.int64] | None = None,
    ) -> int:
        """Lay a block down and return the row of its start.

        ``labels`` gives the recogniser's label for each of the block's. Raises LimitExceededError
        past ``max_cells``.
        """
        dfa = block.dfa
        states, classes = dfa.next.shape
        start = self.num_rows
        rows = self._new_rows(states, states * classes)
        cells = np.where(dfa.next == DEAD, DEAD, dfa.next + start)
        self.cells[self.num_cells : self.num_cells + cells.size] = cells.reshape(-1)
        self.base[rows] = self.num_cells + np.arange(states, dtype=np.int32) * classes
        self.kind[rows] = self._map_number(dfa.byte_class)
        renamed = np.full(max(labels, default=0) + 2, DEAD, dtype=np.int32)
        for old, new in labels.items():
            renamed[old] = new
        self.label[rows] = renamed[dfa.label]  # the last entry serves DEAD
        self.aim[rows] = renamed[block.aim]
        self.left[rows] = block.left
        self.way[rows] = block.way
        self.only[rows] = block.only
        self.exits[rows] = block.exits
        if role is not None:
            self.role[rows] = role
            # Where a name may end depends on those that stand already.
            self.aim[rows] = np.where(role == PLAIN, self.aim[rows], DEAD)
        if ends is not None:
            self.ends[rows] = ends
        if block.beat is not None and block.need is not None and block.bounds is not None:
            self.gate[rows] = self.gate_number(*block.bounds)
            self.beat[rows] = block.beat
            self.need[rows] = block.need
        self.num_cells += cells.size
        return start

    def add_chain(self, text: bytes, end: int, aim: int) -> int:
        """Rows that spell ``text`` and lead to row ``end``, whose label is ``aim``."""
        size = len(text)
        first = self.num_rows
        rows = self._new_rows(size, 2 * size)
        cells = self.cells[self.num_cells : self.num_cells + 2 * size].reshape(size, 2)
        cells[:, 0] = DEAD
        cells[:, 1] = np.arange(first + 1, first + size + 1)
        cells[-1, 1] = end
        self.base[rows] = np.arange(self.num_cells, self.num_cells + 2 * size, 2, dtype=np.int32)
        spelled = np.frombuffer(text, dtype=np.uint8)
        self.kind[rows] = spelled
        self.way[rows] = spelled
        self.only[rows] = spelled
        self.aim[rows] = aim
        self.left[rows] = np.arange(size, 0, -1) + self.left[end]
        self.num_cells += 2 * size
        return first

    def add_row(
        self,
        edges: Mapping[int, int],
        *,
        label: int = DEAD,
        role: int = PLAIN,
        way: int | None = None,
        bounds: tuple[int, int | None] | None = None,
        itself: Sequence[int] = (),
    ) -> int:
        """A row that leads to rows already there, and on the bytes ``itself`` to itself.

        The shortest way goes to the nearest label, or by ``way`` where that is given. With
        ``bounds`` entering the row counts as one more.
        """
        row, at = self.num_rows, self.num_cells
        bytes_ = (*edges, *itself)
        self._new_rows(1, len(bytes_) + 1)
        self.num_cells += len(bytes_) + 1
        self.cells[at : self.num_cells] = [DEAD, *edges.values(), *[row] * len(itself)]
        self.base[row] = at
        self.kind[row] = bytes_[0] if len(bytes_) == 1 else self._edge_map(bytes_)
        if label != DEAD:
            self.label[row] = self.aim[row] = label
            self.exits[row] = not bytes_
        elif edges:
            left = self.left
            if way is None:
                way = min(edges, key=lambda byte: left[edges[byte]])
            ahead = edges[way]
            self.left[row], self.way[row], self.aim[row] = left[ahead] + 1, way, self.aim[ahead]
            if len(bytes_) == 1:
                self.only[row] = way
        if role != PLAIN:
            self.role[row] = role
        if bounds is not None:
            self.gate[row], self.beat[row] = self.gate_number(*bounds), TICK
        return row

    def add_overlays(self, under: Sequence[int], edges: Sequence[Mapping[int, int]]) -> int:
        """Rows that lead where ``edges`` says, and on all other bytes where ``under`` leads.

        All that they lie over are rows of one block. Returns the first of them; the edges may lead
        to one another, counted from there.
        """
        below = np.array(under)
        kind = int(self.kind[below[0]])
        width, first = self._width(kind), self.num_rows
        sizes = np.array([width + len(leading) for leading in edges])
        starts = self.num_cells + np.cumsum(sizes) - sizes
        rows = self._new_rows(len(sizes), int(sizes.sum()))
        self.num_cells += int(sizes.sum())
        self.base[rows] = starts
        self.kind[rows] = [self._overlay_kind(kind, tuple(leading)) for leading in edges]
        inside = np.arange(width)
        self.cells[starts[:, None] + inside] = self.cells[self.base[below][:, None] + inside]
        for start, leading in zip((starts + width).tolist(), edges, strict=True):
            self.cells[start : start + len(leading)] = [*leading.values()]
        self.like[rows] = below
        for array in (self.left, self.way, self.role, self.ends, self.gate, self.beat, self.need):
            array[rows] = array[below]
        return first

    def lead_on(self, rows: range) -> None:
        """Find other ways on for rows whose shortest one an overlay has closed."""
        for row in reversed(rows):
            way = int(self.way[row])
            if way != STOP and self.step(row, way) == DEAD:
                way = min(edges := self.edges(row), key=lambda byte: self.left[edges[byte]])
                self.way[row] = way
            if way != STOP:
                self.left[row] = self.left[self.step(row, way)] + 1

    def _width(self, kind: int) -> int:
        """The number of classes that a map tells apart."""
        width = self._widths.get(kind)
        if width is None:
            width = self._widths[kind] = int(self.byte_maps[kind].max()) + 1
        return width

    def _overlay_kind(self, under: int, bytes_: tuple[int, ...]) -> int:
        """The map ``under`` with these bytes in classes of their own, behind its classes."""
        number = self._overlay_kinds.get((under, bytes_))
        if number is None:
            byte_class = self.byte_maps[under].copy()
            width = self._width(under)
            byte_class[list(bytes_)] = np.arange(width, width + len(bytes_))
            number = self._overlay_kinds[under, bytes_] = self._map_number(byte_class)
        return number

    def step(self, row: int, byte: int) -> int:
        """The row behind ``byte`` inside the block, or DEAD."""
        return int(self.cells[self.base[row] + self.byte_maps[self.kind[row], byte]])

    def lead(self, row: int, byte: int, target: int) -> None:
        """Lead a row that ``add_row`` made elsewhere by one of its bytes."""
        self.cells[self.base[row] + self.byte_maps[self.kind[row], byte]] = target

    def edges(self, row: int) -> dict[int, int]:
        """The bytes that lead on from a row, with the rows that they lead to."""
        targets = self.cells[self.base[row] + self.byte_maps[self.kind[row]]]
        live = np.nonzero(targets != DEAD)[0]
        return dict(zip(live.tolist(), targets[live].tolist(), strict=True))

    def gate_number(self, low: int, high: int | None) -> int:
        """The gate with these bounds."""
        number = self._gate_numbers.setdefault((low, high), len(self.gates))
        if number == len(self.gates):
            bounds = [[min(low, NO_BOUND), NO_BOUND if high is None else min(high, NO_BOUND)]]
            self.gates = np.concatenate([self.gates, np.array(bounds, dtype=np.int32)])
        return number

    def check(self) -> None:
        """Raise AssertionError unless every row is well formed and leads only to rows there are."""
        for row in range(self.num_rows):
            edges = self.edges(row)
            assert all(0 <= target < self.num_rows for target in edges.values()), row
            only = next(iter(edges)) if len(edges) == 1 else DEAD
            assert self.only[row] in (only, DEAD), (row, self.only[row], only)
            assert self.way[row] == STOP or self.way[row] in edges, row
            if self.way[row] == STOP:
                assert self.aim[row] in (self.label[row], DEAD), row
            else:
                ahead = edges[int(self.way[row])]
                assert self.left[row] >= self.left[ahead] + 1, row
                assert self.aim[row] in (self.aim[ahead], DEAD), row
            assert self.exits[row] == (self.label[row] != DEAD and not edges), row

    def _new_rows(self, rows: int, cells: int) -> slice:
        self._reserve(rows, cells)
        new = slice(self.num_rows, self.num_rows + rows)
        self.num_rows += rows
        return new

    def _map_number(self, byte_class: NDArray[np.uint8]) -> int:
        key = byte_class.tobytes()
        number = self._map_numbers.get(key)
        if number is None:
            number = self._map_numbers[key] = len(self.byte_maps)
            if number == len(self._maps):
                self._maps = _grown(self._maps, number + 1)
            self._maps[number] = byte_class
            self.byte_maps = self._maps[: number + 1]
        return number

    def _edge_map(self, bytes_: tuple[int, ...]) -> int:
        number = self._edge_maps.get(bytes_)
        if number is None:
            number = self._edge_maps[bytes_] = self._map_number(_told_apart(bytes_))
        return number

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
            for name, unset in _UNSET.items():
                grown = _grown(getattr(self, name), max(self.num_rows + rows, _LEAST_ROWS))
                grown[self.num_rows :] = unset
                setattr(self, name, grown)


@functools.lru_cache(maxsize=4096)
def _told_apart(bytes_: tuple[int, ...]) -> NDArray[np.uint8]:
    """A map of these bytes to the classes from 1 on, and of all others to class 0."""
    byte_class = np.zeros(256, dtype=np.uint8)
    byte_class[list(bytes_)] = np.arange(1, len(bytes_) + 1)
    return byte_class


_SINGLE_BYTES = np.eye(256, dtype=np.uint8)
"""Map ``b`` tells the byte ``b`` from all others."""
_SINGLE_BYTES.flags.writeable = False

_LEAST_ROWS = 1024

_Item = TypeVar("_Item", bound=np.generic)


def _grown(array: NDArray[_Item], needed: int) -> NDArray[_Item]:
    grown = np.empty((max(needed, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
