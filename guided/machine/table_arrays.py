"""The arrays of a transition table, and the methods that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.machine.block import STOP
from guided.machine.byte_maps import shared_byte_maps
from guided.machine.table_layout import (
    BASE,
    COUNT_EVENT,
    DISTANCE,
    EXITS,
    HIGH,
    IN_KEY,
    IN_RARE_KEY,
    KIND,
    LABEL,
    LOW,
    MAX_ROWS,
    MIN_REMAINING,
    NAMES_LEFT,
    NEAREST_LABEL,
    NEXT_BYTE,
    ONLY,
    OVERLAID_ROW,
    ROLE,
    WIDTH,
)
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import pause_if_due

__all__ = ["TableArrays"]


_LARGE_ARRAY: Final = 2**20
"""Entries beyond which arrays grow by a quarter."""
_COPY_CHUNK: Final = 2**18
"""Entries copied between two pauses (``pause_if_due``)."""


class TableArrays:
    """The rows of a table, and the cells that say where their bytes lead; both only grow.

    ``rows`` is int32 ``[rows, 15]``, with room for more; ``table_layout`` describes the columns.
    A row with a LABEL other than DEAD may leave its block: the recogniser then resolves the label
    in the current stack. ONLY and NEAREST_LABEL may be DEAD if more could be known, as in overlays
    and in keys. MIN_REMAINING is also the most code points that come along NEXT_BYTE.
    """

    def __init__(self, max_cells: int) -> None:
        self.max_cells = max_cells
        self.num_rows = 0
        self.num_cells = 0
        self._set_cells(np.empty(1024, dtype=np.int32))
        self._set_rows(np.empty((1024, WIDTH), dtype=np.int32))
        self._maps = shared_byte_maps()
        self._no_bytes = self._maps.distinguish(())
        """The map that distinguishes no bytes."""

    @property
    def nbytes(self) -> int:
        """Memory of rows and cells, in bytes; maps of bytes are shared by all tables."""
        return self.rows.nbytes + self.cells.nbytes

    @property
    def byte_maps(self) -> NDArray[np.uint8]:
        """The maps that rows name by their KIND, uint8 ``[maps, 256]``."""
        return self._maps.array

    def _set_cells(self, cells: NDArray[np.int32]) -> None:
        """Make ``cells`` the table's cells; called again by ``_reserve`` after growth."""
        self.cells = cells
        self._flat_cells = cells.data
        self._usable_cells = min(len(cells), self.max_cells)
        """The number of cells that fit both the array and ``max_cells``; see ``_new_rows``."""

    def _set_rows(self, rows: NDArray[np.int32]) -> None:
        """Make ``rows`` the table's rows, with a view of each column; called again after growth.

        No view may be kept while rows are added: growth replaces all of them.
        """
        self.rows = rows
        self._usable_rows = min(len(rows), MAX_ROWS)
        """The same of rows as ``_usable_cells``."""
        self._flat = rows.reshape(-1).data
        """Where Python reads and writes single numbers, many times as fast as with numpy."""
        self.base, self.kind, self.label = rows[:, BASE], rows[:, KIND], rows[:, LABEL]
        self.exits, self.role, self.overlaid_row = (
            rows[:, EXITS],
            rows[:, ROLE],
            rows[:, OVERLAID_ROW],
        )
        self.count_event, self.min_remaining, self.names_left = (
            rows[:, COUNT_EVENT],
            rows[:, MIN_REMAINING],
            rows[:, NAMES_LEFT],
        )
        self.low, self.high = rows[:, LOW], rows[:, HIGH]
        self.distance, self.next_byte = rows[:, DISTANCE], rows[:, NEXT_BYTE]
        self.nearest_label, self.only = rows[:, NEAREST_LABEL], rows[:, ONLY]

    def step(self, row: int, byte: int) -> int:
        """Return the row after ``byte`` inside the block, or DEAD; no exit action is followed."""
        at, flat = row * WIDTH, self._flat
        return self._flat_cells[flat[at + BASE] + int(self.byte_maps[flat[at + KIND], byte])]

    def is_end(self, row: int) -> bool:
        """Return whether nothing leads on from a row: neither a byte nor an exit action.

        Only rows that ``add_row`` adds without bytes are like that: automata have no dead
        ends. If the row's map distinguishes no bytes, none leads on, as UTF-8 never allows all 256.
        """
        at, flat = row * WIDTH, self._flat
        return flat[at + LABEL] == DEAD and flat[at + KIND] == self._no_bytes

    def is_key(self, row: int) -> bool:
        """Return whether a row is inside the text of a free key."""
        return self._flat[row * WIDTH + ROLE] in (IN_KEY, IN_RARE_KEY)

    def edges(self, row: int) -> dict[int, int]:
        """Return the bytes that lead on from a row, ascending, with the rows that they lead to.

        The dictionary is fresh. This reads all 256 bytes, so it is too slow for each step of a
        text.
        """
        targets = self.cells[self.base[row] + self.byte_maps[self.kind[row]]]
        live = np.nonzero(targets != DEAD)[0]
        return dict(zip(live.tolist(), targets[live].tolist(), strict=True))

    def _nearest(self, edges: Mapping[int, int]) -> int:
        """Return the byte whose row is nearest to a label, the first of ``edges`` among equals.

        DEAD if there are no edges. The DISTANCE of their targets must be final.
        """
        flat, best, nearest = self._flat, -1, DEAD
        for byte, target in edges.items():
            distance = flat[target * WIDTH + DISTANCE]
            if best < 0 or distance < best:
                best, nearest = distance, byte
        return nearest

    def check(self) -> None:
        """Raise AssertionError unless every row is well formed and leads only to existing rows."""
        for row in range(self.num_rows):
            edges = self.edges(row)
            assert all(0 <= target < self.num_rows for target in edges.values()), row
            # ONLY and NEAREST_LABEL may be DEAD if more is known: that is slower but never wrong.
            only = next(iter(edges)) if len(edges) == 1 else DEAD
            assert self.only[row] in (only, DEAD), (row, self.only[row], only)
            assert self.next_byte[row] == STOP or self.next_byte[row] in edges, row
            if self.next_byte[row] == STOP:
                assert self.nearest_label[row] in (self.label[row], DEAD), row
            else:
                # More where a count begins: DISTANCE has the least count there (``Block``).
                ahead = edges[int(self.next_byte[row])]
                assert self.distance[row] >= self.distance[ahead] + 1, row
                assert self.nearest_label[row] in (self.nearest_label[ahead], DEAD), row
            assert self.exits[row] == (self.label[row] != DEAD and not edges), row

    def _new_rows(self, rows: int, cells: int) -> int:
        """Make room for ``rows`` rows and ``cells`` cells, which the caller has to fill.

        Returns the first row. The new cells are the last ``cells`` up to ``num_cells``. Arrays
        that were read before the call may have been replaced. Raises LimitExceededError past
        ``max_cells`` or MAX_ROWS, and then nothing has changed.

        The new rows and cells are not cleared: every column and cell has to be written before it is
        read.
        """
        first = self.num_rows
        num_rows, num_cells = first + rows, self.num_cells + cells
        if num_cells > self._usable_cells or num_rows > self._usable_rows:
            self._reserve(rows, cells)
        self.num_rows, self.num_cells = num_rows, num_cells
        return first

    def _reserve(self, rows: int, cells: int) -> None:
        """Grow the arrays at least this far.

        Raises LimitExceededError past ``max_cells`` or MAX_ROWS. This is checked before anything
        changes, so that a full table stays usable. Growing may pause, and a pause may end the work
        by raising while the table stays in use: so an array is replaced only once its copy is
        complete.
        """
        for needed, limit, what in (
            (self.num_cells + cells, self.max_cells, "cells"),
            (self.num_rows + rows, MAX_ROWS, "rows"),
        ):
            if needed > limit:
                raise LimitExceededError(
                    f"the recogniser needs more than {limit} {what}",
                    limit=limit,
                    field="constraint",
                    hint="ask for less at once: shorter strings, smaller enums, fewer members",
                )
        if self.num_cells + cells > len(self.cells):
            self._set_cells(_grow(self.cells, self.num_cells + cells))
        if self.num_rows + rows > len(self.rows):
            self._set_rows(_grow(self.rows, self.num_rows + rows))


_Item = TypeVar("_Item", bound=np.generic)


def _grow(array: NDArray[_Item], needed: int) -> NDArray[_Item]:
    """Return a copy with room for ``needed`` entries and as many again, so that growth is rare.

    Large arrays get room for only a quarter more, to save memory.

    The old array stays as it is for whoever still reads it. What lies after the copied entries is
    not cleared.
    """
    most = max(needed, len(array))
    room = most if most < _LARGE_ARRAY else most // 4
    grown = np.empty((most + room, *array.shape[1:]), dtype=array.dtype)
    # In pieces, as copying millions takes a while.
    for first in range(0, len(array), _COPY_CHUNK):
        pause_if_due()
        grown[first : min(first + _COPY_CHUNK, len(array))] = array[first : first + _COPY_CHUNK]
    return grown
