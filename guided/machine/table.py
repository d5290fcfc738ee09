"""The transition table of a recogniser: rows for the states of blocks, added in bulk."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block import (
    CLOSE_STRING,
    CODE_POINT_END,
    INSIDE,
    NO_EVENT,
    START,
    STOP,
    Block,
)
from guided.machine.table_arrays import TableArrays
from guided.machine.table_kernels import (
    correct_next_bytes,
    count_branches,
    write_block,
    write_branches,
    write_chains,
    write_exits,
    write_overlays,
    write_sets,
)
from guided.machine.table_layout import (
    COUNT_EVENT,
    DISTANCE,
    EXITS,
    HIGH,
    IN_KEY,
    IN_RARE_KEY,
    KEY_CLOSED,
    KIND,
    LABEL,
    LOW,
    MIN_REMAINING,
    NEAREST_LABEL,
    NO_BOUND,
    ONLY,
    OVERLAID_ROW,
    PLAIN,
    ROLE,
    UNCOUNTED,
    WIDTH,
)
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend, without_gil

__all__ = [
    "CLOSE_STRING",
    "CODE_POINT_END",
    "COUNT_EVENT",
    "DEAD",
    "END_ROW",
    "EXITS",
    "HIGH",
    "INSIDE",
    "IN_KEY",
    "IN_RARE_KEY",
    "KEY_CLOSED",
    "LABEL",
    "LOW",
    "MIN_REMAINING",
    "NO_BOUND",
    "ONLY",
    "OVERLAID_ROW",
    "PLAIN",
    "ROLE",
    "START",
    "STOP",
    "UNCOUNTED",
    "WIDTH",
    "TransitionTable",
]

END_ROW: Final = 0
"""The row after a whole value: nothing may follow. Machines that fill holes add it first."""
_ROW: Final = struct.Struct(f"{WIDTH}i")
_CORRECTION_WORK: Final = 10
"""Units of work for the NEXT_BYTE of one row that is searched again."""


class TransitionTable(TableArrays):
    """The rows of all automata of one machine, or of several that share a table."""

    def add_block(
        self,
        block: Block,
        labels: Mapping[int, int] | NDArray[np.int32],
        role: NDArray[np.int8] | None = None,
        names_left: NDArray[np.int64] | None = None,
    ) -> int:
        """Add the rows of a block; returns that of its start. State ``s`` is ``s`` rows after it.

        ``labels`` maps each label of the block to the recogniser's. As an array it ends with one
        more entry, DEAD: the kernel looks up the label of a state without one as entry -1.

        ``role`` and ``names_left`` are given only for blocks of free member names, with an entry
        per state: the ROLE column, and how many names the text so far can still become. All other
        blocks leave both out; their rows are PLAIN, and their NAMES_LEFT is NO_BOUND.

        Raises LimitExceededError past ``max_cells``.
        """
        dfa = block.dfa
        states, classes = dfa.next.shape
        start = self._new_rows(states, states * classes)
        label_map = labels if isinstance(labels, np.ndarray) else _label_array(labels)
        with without_gil(states * classes // 256):
            write_block(
                self.rows[start : self.num_rows],
                self.cells[self.num_cells - states * classes : self.num_cells],
                start,
                self.num_cells - states * classes,
                self._maps.number(dfa.byte_class),
                dfa.next,
                dfa.label,
                block.nearest_label,
                label_map,
                block.distance,
                block.next_byte,
                block.only,
                block.exits,
            )
        rows = slice(start, self.num_rows)
        if role is not None:
            self.role[rows] = role
            # The block knows the nearest end of a name, but the object may already have that very
            # name. NEAREST_LABEL is DEAD there: completions search for a name that is still free.
            self.nearest_label[rows] = np.where(role == PLAIN, self.nearest_label[rows], DEAD)
        if names_left is not None:
            self.names_left[rows] = names_left
        # A block has all three or none: it counts code points, or it does not.
        if (
            block.count_event is not None
            and block.min_remaining is not None
            and block.bounds is not None
        ):
            self.low[rows], self.high[rows] = _bound_columns(*block.bounds)
            self.count_event[rows] = block.count_event
            self.min_remaining[rows] = block.min_remaining
        return start

    def add_exits(self, labels: Sequence[int]) -> int:
        """Add one row for each label, which reads no byte and has that exit action.

        Returns the first row; the others follow in the order of ``labels``.
        """
        first, at = self._new_rows(len(labels), len(labels)), self.num_cells - len(labels)
        write_exits(
            self.rows, self.cells, first, at, self._no_bytes, np.array(labels, dtype=np.int32)
        )
        return first

    def add_chains(self, text: bytes, bounds: Sequence[int], targets: Sequence[int]) -> int:
        """Add rows that spell texts, one row for each byte of each text.

        ``text`` is all texts joined, none of them empty, and ``bounds`` has where each of them
        ends in it, ascending. ``targets`` has by text the row that its last byte leads to. Returns
        the first row: the row that reads byte ``i`` of ``text`` is ``i`` rows after it.
        """
        # Two cells per row: one for the byte that is read, and one, DEAD, for all other bytes.
        size = len(text)
        first = self._new_rows(size, 2 * size)
        lists = np.array(bounds, dtype=np.int32), np.array(targets, dtype=np.int32)
        with without_gil(size // 16):
            write_chains(
                *(self.rows, self.cells, first, self.num_cells - 2 * size),
                np.frombuffer(text, dtype=np.uint8),
                *lists,
            )
        return first

    def add_branches(
        self, text: bytes, bounds: Sequence[int], chains: Sequence[tuple[int, int]], depth: int
    ) -> int:
        """Add the rows of a trie of texts, up to where each text is the only one left.

        ``text`` and ``bounds`` give the texts as in ``add_chains``. They are sorted, none is the
        beginning of another, and all share their first ``depth`` bytes, which count as read.
        ``chains`` has by text the first row of its chain (see ``add_chains``), which spells the
        rest once the text is the only one left, and the row that the whole text leads to. Returns
        the root, the row after the ``depth`` bytes.
        """
        spelled = np.frombuffer(text, dtype=np.uint8)
        ends = np.array(bounds, dtype=np.int32)
        nodes = np.empty((len(text), 3), dtype=np.int32)
        count, edges = count_branches(spelled, ends, depth, nodes)
        assert count > 0, "as many rows as bytes suffice"
        nodes, bytes_ = nodes[:count], np.empty(edges, dtype=np.uint8)
        first, at = self._new_rows(count, count + edges), self.num_cells - count - edges
        write_branches(
            *(self.rows, self.cells, first, at, spelled, ends),
            *(np.array(chains, dtype=np.int32), nodes, bytes_),
        )
        # The kernel has replaced the first column by where in ``bytes_`` the edges of each node
        # begin. It sets KIND of nodes with one edge; a map of several bytes is made here.
        begins = [*nodes[:, 0].tolist(), edges]
        of_edges = bytes_.tolist()
        for node in range(count):
            begin, end = begins[node], begins[node + 1]
            if end - begin > 1:
                kind = self._maps.distinguish(tuple(of_edges[begin:end]))
                self._flat[(first + node) * WIDTH + KIND] = kind
        return first

    def add_row(
        self,
        edges: Mapping[int, int],
        *,
        label: int = DEAD,
        role: int = PLAIN,
        next_byte: int | None = None,
        bounds: tuple[int, int | None] | None = None,
        loop_bytes: Sequence[int] = (),
    ) -> int:
        """Add a row that leads to existing rows, and on ``loop_bytes`` to itself.

        ``edges`` has the target row by byte; ``label`` is the exit action, DEAD for none.
        ``next_byte`` is the first byte of the shortest path to a label; by default it is the byte
        of ``edges`` with the nearest label, the first among equals. With ``bounds``, the least and
        the greatest count (``None`` for no bound), each time the row is entered counts as one more.
        """
        bytes_ = (*edges, *loop_bytes)
        at = self.num_cells
        row = self._new_rows(1, len(bytes_) + 1)
        cells = self._flat_cells
        cells[at] = DEAD
        cell = at + 1
        for target in edges.values():
            cells[cell] = target
            cell += 1
        for _ in loop_bytes:
            cells[cell] = row
            cell += 1
        kind = self._maps.distinguish(bytes_)
        distance, first_byte, nearest = 0, STOP, label
        # A row with a label is already at its nearest label: DISTANCE is 0 and NEXT_BYTE is STOP.
        if label == DEAD and edges:
            if next_byte is None:
                next_byte = self._nearest(edges)
            flat, ahead = self._flat, edges[next_byte] * WIDTH
            distance, first_byte, nearest = (
                flat[ahead + DISTANCE] + 1,
                next_byte,
                flat[ahead + NEAREST_LABEL],
            )
        # STOP equals DEAD: so ONLY is DEAD in a row with a label, and in one with a loop alone.
        only = first_byte if len(bytes_) == 1 else DEAD
        exits = label != DEAD and not bytes_
        count_event, (low, high) = (
            (NO_EVENT, (0, UNCOUNTED))
            if bounds is None
            else (CODE_POINT_END, _bound_columns(*bounds))
        )
        # In the order of the columns, see ``table_layout``; one call instead of 15 assignments.
        _ROW.pack_into(
            self._flat,
            row * _ROW.size,
            *(at, kind, label, exits, role, count_event, 0, low, high, NO_BOUND, DEAD),
            *(distance, first_byte, nearest, only),
        )
        return row

    def add_sets(
        self,
        byte_classes: NDArray[np.uint8],
        labels: Sequence[int],
        edges: NDArray[np.int32],
        rows_of: NDArray[np.int32],
        numbers: Sequence[int],
        first_rows: Sequence[int],
        num_ambiguous: int,
        first_label: int,
    ) -> int:
        """Add a row for each set of states, and then one for each ambiguous byte.

        A byte is ambiguous where it may be read in the set as well as after a rule that ends there;
        it leads to a row with nothing but an exit action. There are ``num_ambiguous`` of these
        rows, and their labels ascend from ``first_label``. Returns the first row.

        By set, in the order of their rows: ``numbers``, by which edges and ``rows_of`` refer to the
        set; ``byte_classes``, uint8 ``[sets, 256]``; ``labels``, DEAD for none.

        ``edges``, int32 ``[edges, 4]``, has a line for each class of bytes of each set, sorted by
        set and then by class: the number of the set, how these bytes lead on, and where to::

            TO_STATE      a state, and an index into ``first_rows``: its row is
                          ``first_rows[index] + state``
            TO_SET        the number of a set, whose row is in ``rows_of``
            TO_AMBIGUOUS  the next of the rows for ambiguous bytes
            NOWHERE       nothing

        ``rows_of`` has the row of each set by number. The rows added here are entered into it;
        those of all other sets that edges lead to must already be there.
        """
        sets, size = len(labels), len(edges) + num_ambiguous
        row, at = self._new_rows(sets + num_ambiguous, size), self.num_cells - size
        named = np.array([numbers, self._maps.numbers(byte_classes), labels], dtype=np.int32)
        write_sets(
            *(self.rows, self.cells, row, at, named),
            *(byte_classes, edges, rows_of, np.array(first_rows, dtype=np.int32)),
            *(num_ambiguous, self._no_bytes, first_label),
        )
        return row

    def add_overlays_from_edges(self, under: NDArray[np.int32], edges: NDArray[np.int32]) -> int:
        """Add overlays: copies of the rows ``under`` with other targets for some bytes.

        ``under`` are rows of one block, at least one. ``edges`` is int32 ``[edges, 3]``: the index
        in ``under``, the byte and the target, sorted by index. An overlay has no LABEL and no
        NEAREST_LABEL. DISTANCE, NEXT_BYTE and MIN_REMAINING are copied: if an edge closes a
        NEXT_BYTE, the caller has to call ``recompute_next_bytes``. Returns the first overlay.

        The cells of the rows ``under`` must not change: they are copied, so later changes are not
        seen.
        """
        # Rows of one block share their map of bytes, so their cells can be copied side by side.
        kind = int(self.kind[under[0]])
        width = self._maps.width(kind)
        size = len(under) * width + len(edges)
        first = self._new_rows(len(under), size)
        needs_map = np.empty((len(under), 3), dtype=np.int32)
        count = write_overlays(
            *(self.rows, self.cells, first, self.num_cells - size, under, kind, width),
            *(edges, self._maps.single_byte_splits(kind), needs_map),
        )
        # The kernel looks up the map with one more class; maps with several more are made here.
        for node, start, end in needs_map[:count].tolist():
            bytes_ = tuple(edges[start:end, 1].tolist())
            self.kind[first + node] = self._maps.add_classes(kind, bytes_)
        return first

    def recompute_next_bytes(self, rows: range) -> None:
        """Correct NEXT_BYTE, DISTANCE and MIN_REMAINING of overlays whose NEXT_BYTE may be closed.

        A NEXT_BYTE that still leads on with as few code points stays, even if another byte is
        nearer now: DISTANCE is then the length of the way along it, which need not be the shortest.
        Every overlay whose NEXT_BYTE is not STOP must still lead on by some byte. Overlays must
        lead only to later ones: the last row is corrected first, so that DISTANCE and MIN_REMAINING
        of a row's targets are final when they are read.
        """
        spend(len(rows) // 4)
        searched = correct_next_bytes(self.rows, self.cells, self.byte_maps, rows.start, rows.stop)
        spend(_CORRECTION_WORK * searched)


def _label_array(labels: Mapping[int, int]) -> NDArray[np.int32]:
    """Return the map as an array by label, ending with the entry for DEAD; see ``add_block``."""
    label_map = np.full(max(labels, default=0) + 2, DEAD, dtype=np.int32)
    for old, new in labels.items():
        label_map[old] = new
    return label_map


def _bound_columns(low: int, high: int | None) -> tuple[int, int]:
    """Return LOW and HIGH of a row; NO_BOUND stands for no bound and for any that is greater."""
    return min(low, NO_BOUND), NO_BOUND if high is None else min(high, NO_BOUND)
