"""The transition table of a recogniser: rows for states inside a block, laid down in bulk."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import (
    CLOSE_STRING,
    INSIDE,
    NO_BEAT,
    START,
    STOP,
    TICK,
    Block,
)
from guided.machine.table_arrays import TableArrays
from guided.machine.table_kernels import (
    count_branches,
    lay_block,
    lay_branches,
    lay_chains,
    lay_exits,
    lay_overlays,
    lay_sets,
)
from guided.machine.table_layout import (
    AIM,
    BASE,
    BEAT,
    ENDS,
    EXITS,
    HIGH,
    IN_KEY,
    IN_RARE_KEY,
    KEY_CLOSED,
    KIND,
    LABEL,
    LEFT,
    LIKE,
    LOW,
    NEED,
    NO_BOUND,
    ONLY,
    PLAIN,
    ROLE,
    UNCOUNTED,
    WIDTH,
)
from guided.regular.dfa import DEAD

__all__ = [
    "AIM",
    "BASE",
    "BEAT",
    "CLOSE_STRING",
    "DEAD",
    "ENDS",
    "END_ROW",
    "EXITS",
    "HIGH",
    "INSIDE",
    "IN_KEY",
    "IN_RARE_KEY",
    "KEY_CLOSED",
    "KIND",
    "LABEL",
    "LIKE",
    "LOW",
    "NEED",
    "NO_BEAT",
    "NO_BOUND",
    "ONLY",
    "PLAIN",
    "ROLE",
    "START",
    "STOP",
    "TICK",
    "UNCOUNTED",
    "WIDTH",
    "TransitionTable",
]

END_ROW: Final = 0
"""The row after a whole value: nothing may follow. Machines that fill holes lay it down first."""
_ROW: Final = struct.Struct(f"{WIDTH}i")


class TransitionTable(TableArrays):
    """Lays down the rows of all automata of one machine, or of several that share a table."""

    def add_block(
        self,
        block: Block,
        labels: Mapping[int, int] | NDArray[np.int32],
        role: NDArray[np.int8] | None = None,
        ends: NDArray[np.int64] | None = None,
    ) -> int:
        """Lay a block down and return the row of its start.

        ``labels`` gives the recogniser's label for each of the block's, as an array with DEAD
        behind the last one. Raises LimitExceededError past ``max_cells``.
        """
        dfa = block.dfa
        states, classes = dfa.next.shape
        start = self._new_rows(states, states * classes)
        renamed = labels if isinstance(labels, np.ndarray) else _renamed(labels)
        lay_block(
            self.rows[start : self.num_rows],
            self.cells[self.num_cells - states * classes : self.num_cells],
            start,
            self.num_cells - states * classes,
            self._maps.number(dfa.byte_class),
            dfa.next,
            dfa.label,
            block.aim,
            renamed,
            block.left,
            block.way,
            block.only,
            block.exits,
        )
        rows = slice(start, self.num_rows)
        if role is not None:
            self.role[rows] = role
            # Where a name may end depends on those that stand already.
            self.aim[rows] = np.where(role == PLAIN, self.aim[rows], DEAD)
        if ends is not None:
            self.ends[rows] = ends
        if block.beat is not None and block.need is not None and block.bounds is not None:
            self.low[rows], self.high[rows] = _gate(*block.bounds)
            self.beat[rows] = block.beat
            self.need[rows] = block.need
        return start

    def add_exits(self, labels: Sequence[int]) -> int:
        """Rows that only take a label each; the first of them."""
        first, at = self._new_rows(len(labels), len(labels)), self.num_cells - len(labels)
        lay_exits(
            self.rows, self.cells, first, at, self._no_bytes, np.array(labels, dtype=np.int32)
        )
        return first

    def add_chains(self, text: bytes, bounds: Sequence[int], ends: Sequence[int]) -> int:
        """Rows that spell the texts that end in ``text`` at ``bounds``, one for each byte.

        Each leads to the row among ``ends``. Returns the first row.
        """
        size = len(text)
        first = self._new_rows(size, 2 * size)
        lay_chains(
            *(self.rows, self.cells, first, self.num_cells - 2 * size),
            np.frombuffer(text, dtype=np.uint8),
            *(np.array(bounds, dtype=np.int32), np.array(ends, dtype=np.int32)),
        )
        return first

    def add_branches(
        self, text: bytes, bounds: Sequence[int], leads: Sequence[tuple[int, int]], depth: int
    ) -> int:
        """Rows that tell apart sorted texts, behind ``depth`` bytes that all have in common.

        The texts end in ``text`` at ``bounds``. ``leads`` are, for each, the first row of its chain
        and the one that it leads to. Returns the row where nothing is told apart yet.
        """
        spelled = np.frombuffer(text, dtype=np.uint8)
        ends = np.array(bounds, dtype=np.int32)
        nodes = np.empty((len(text), 3), dtype=np.int32)
        count, edges = count_branches(spelled, ends, depth, nodes)
        assert count > 0, "as many rows as bytes suffice"
        nodes, bytes_ = nodes[:count], np.empty(edges, dtype=np.uint8)
        first, at = self._new_rows(count, count + edges), self.num_cells - count - edges
        lay_branches(
            *(self.rows, self.cells, first, at, spelled, ends),
            *(np.array(leads, dtype=np.int32), nodes, bytes_),
        )
        begins = [*nodes[:, 0].tolist(), edges]
        of_edges = bytes_.tolist()
        for node in range(count):
            begin, end = begins[node], begins[node + 1]
            if end - begin > 1:
                kind = self._maps.telling_apart(tuple(of_edges[begin:end]))
                self._flat[(first + node) * WIDTH + KIND] = kind
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
        bytes_ = (*edges, *itself)
        at = self.num_cells
        row = self._new_rows(1, len(bytes_) + 1)
        cells = self._flat_cells
        cells[at] = DEAD
        cell = at + 1
        for target in edges.values():
            cells[cell] = target
            cell += 1
        for _ in itself:
            cells[cell] = row
            cell += 1
        kind = self._maps.telling_apart(bytes_)
        left, ahead_way, aim = 0, STOP, label
        if label == DEAD and edges:
            if way is None:
                way = self._nearest(edges)
            flat, ahead = self._flat, edges[way] * WIDTH
            left, ahead_way, aim = flat[ahead + LEFT] + 1, way, flat[ahead + AIM]
        only = ahead_way if len(bytes_) == 1 else DEAD
        exits = label != DEAD and not bytes_
        beat, (low, high) = (NO_BEAT, (0, UNCOUNTED)) if bounds is None else (TICK, _gate(*bounds))
        _ROW.pack_into(
            self._flat,
            row * _ROW.size,
            *(at, kind, label, exits, role, beat, 0, low, high, NO_BOUND, DEAD),
            *(left, ahead_way, aim, only),
        )
        return row

    def add_sets(
        self,
        byte_classes: NDArray[np.uint8],
        labels: Sequence[int],
        edges: NDArray[np.int32],
        rows_of: NDArray[np.int32],
        numbers: Sequence[int],
        before: Sequence[int],
        sides: int,
        label: int,
    ) -> int:
        """Rows of sets of states, and behind them of bytes that may lead to what follows them.

        By set ``byte_classes``, uint8 ``[sets, 256]``, and ``labels``; ``edges``, int32
        ``[edges, 4]``, have by set and class its number, how its bytes lead on, and where: TO_STATE
        a state and a place in ``before``, which says how far its row is behind it, TO_SET a set
        with its row in ``rows_of``, where those of the sets, whose ``numbers`` these are, are
        entered. All that is TO_EITHER, ``sides`` of them, are rows that only a label leads on from:
        the first has ``label``.
        """
        sets, size = len(labels), len(edges) + sides
        row, at = self._new_rows(sets + sides, size), self.num_cells - size
        named = np.array([numbers, self._maps.numbers(byte_classes), labels], dtype=np.int32)
        lay_sets(
            *(self.rows, self.cells, row, at, named),
            *(byte_classes, edges, rows_of, np.array(before, dtype=np.int32)),
            *(sides, self._no_bytes, label),
        )
        return row

    def _nearest(self, edges: Mapping[int, int]) -> int:
        """The byte with the shortest way to a label."""
        flat, best, nearest = self._flat, -1, DEAD
        for byte, target in edges.items():
            left = flat[target * WIDTH + LEFT]
            if best < 0 or left < best:
                best, nearest = left, byte
        return nearest

    def add_overlays(self, under: Sequence[int], edges: Sequence[Mapping[int, int]]) -> int:
        """Rows that lead where ``edges`` says, and on all other bytes where ``under`` leads.

        All that they lie over are rows of one block. Returns the first of them; the edges may lead
        to one another, counted from there.
        """
        triples = [
            (node, byte, target)
            for node, leading in enumerate(edges)
            for byte, target in leading.items()
        ]
        moves = np.array(triples, dtype=np.int32).reshape(-1, 3)
        return self.lay_over(np.array(under, dtype=np.int32), moves)

    def lay_over(self, under: NDArray[np.int32], edges: NDArray[np.int32]) -> int:
        """The same, with edges int32 ``[edges, 3]``: which of the rows, sorted, byte and target."""
        kind = int(self.kind[under[0]])
        width = self._maps.width(kind)
        size = len(under) * width + len(edges)
        first = self._new_rows(len(under), size)
        without_kind = np.empty((len(under), 3), dtype=np.int32)
        count = lay_overlays(
            *(self.rows, self.cells, first, self.num_cells - size, under, kind, width),
            *(edges, self._maps.splitting_off_one(kind), without_kind),
        )
        for node, start, end in without_kind[:count].tolist():
            bytes_ = tuple(edges[start:end, 1].tolist())
            self.kind[first + node] = self._maps.splitting_off(kind, bytes_)
        return first

    def lead_on(self, rows: range) -> None:
        """Find other ways on for rows whose shortest one an overlay has closed."""
        for row in reversed(rows):
            way = int(self.way[row])
            if way != STOP and self.step(row, way) == DEAD:
                self.way[row] = way = self._nearest(self.edges(row))
            if way != STOP:
                self.left[row] = self.left[self.step(row, way)] + 1


def _renamed(labels: Mapping[int, int]) -> NDArray[np.int32]:
    renamed = np.full(max(labels, default=0) + 2, DEAD, dtype=np.int32)
    for old, new in labels.items():
        renamed[old] = new
    return renamed


def _gate(low: int, high: int | None) -> tuple[int, int]:
    """Bounds as rows hold them."""
    return min(low, NO_BOUND), NO_BOUND if high is None else min(high, NO_BOUND)
