"""Finds rows whose reachable rows form the same graph, up to exit actions.

The strings of two schemas, for example, differ only in what comes after them. If a text may be in
both, the row of one stands for both, and an ``Isomorphism`` gives row and action of the other::

    schema A   10 --"a".."z"--> 10   --'"'--> 11 (action 8)      rows    {10: 40, 11: 41}
    schema B   40 --"a".."z"--> 40   --'"'--> 41 (action 9)      actions {8: 9}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.table import (
    COUNT_EVENT,
    DEAD,
    EXITS,
    HIGH,
    LABEL,
    LOW,
    MIN_REMAINING,
    OVERLAID_ROW,
    PLAIN,
    ROLE,
    TransitionTable,
)
from guided.runtime.work_budget import spend

__all__ = ["IsomorphicRows", "Isomorphism"]

_MOST_ROWS: Final = 500
"""The most rows that are compared; rows that lead to more are not isomorphic."""
_COMPARED_COLUMNS: Final = [EXITS, ROLE, COUNT_EVENT, MIN_REMAINING, LOW, HIGH]
"""Columns of the table that are equal in isomorphic rows."""
_ROW_WORK: Final = 30
"""Units of work for each row that is compared (``spend``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Isomorphism:
    """Maps from one row to another, and from all that it leads to; cached, not to be changed."""

    number: int
    """Unique within one ``IsomorphicRows``."""
    rows: dict[int, int]
    """The corresponding row for each row that is reachable from the first, itself included."""
    actions: dict[int, int]
    """The corresponding exit action for each one of these rows; DEAD, for none, maps to itself."""


class IsomorphicRows:
    """Finds which rows are isomorphic, each pair once."""

    def __init__(self, table: TransitionTable) -> None:
        self.table = table
        self._cache: dict[tuple[int, int], Isomorphism | None] = {}
        """Results of ``find``. Nothing is removed, as its length numbers the next isomorphism."""

    def find(self, row: int, other: int) -> Isomorphism | None:
        """Return the isomorphism from ``row`` to ``other``, ``None`` if they are not isomorphic.

        Rows are isomorphic if the same bytes lead from them to isomorphic rows, they count code
        points with the same bounds, and each exit action of ``row`` corresponds to one of
        ``other``. ``None`` also if they read member names, where the object decides what may
        follow, are overlays, or lead to more than _MOST_ROWS rows.
        """
        if (row, other) not in self._cache:
            self._cache[row, other] = self._compare(row, other)
        return self._cache[row, other]

    def _compare(self, row: int, other: int) -> Isomorphism | None:
        """Compute ``find``: follow both rows together, ``None`` at the first difference.

        Each row and action on the left must always meet the same one on the right. Several on the
        left may share one on the right, as maps are only read from left to right.
        """
        rows, columns = {row: other}, self.table.rows
        actions: dict[int, int] = {}
        worklist = [row]
        for left in worklist:
            spend(_ROW_WORK)
            right = rows[left]
            here, there = columns[left], columns[right]
            # In names the object decides what may follow. The mask of an overlay is made from
            # that of the overlaid row, which the map would have to contain as well.
            if here[ROLE] != PLAIN or here[OVERLAID_ROW] != DEAD or there[OVERLAID_ROW] != DEAD:
                return None
            if (here[_COMPARED_COLUMNS] != there[_COMPARED_COLUMNS]).any():
                return None
            action, other_action = int(here[LABEL]), int(there[LABEL])
            if (action == DEAD) != (other_action == DEAD):
                return None
            if actions.setdefault(action, other_action) != other_action:
                return None
            pairs = self._successor_pairs(left, right)
            if pairs is None:
                return None
            for target, reached in pairs:
                if target not in rows:
                    rows[target] = reached
                    worklist.append(target)
                elif rows[target] != reached:
                    return None
            if len(worklist) > _MOST_ROWS:
                return None
        return Isomorphism(len(self._cache), rows, actions)

    def _successor_pairs(self, row: int, other: int) -> list[tuple[int, int]] | None:
        """Return the pairs of rows that the same bytes lead to, each pair once.

        ``None`` if a byte may follow only one of the two rows.
        """
        here, there = self._targets(row), self._targets(other)
        is_read = here != DEAD
        if (is_read != (there != DEAD)).any():
            return None
        found = np.unique(np.stack([here[is_read], there[is_read]], axis=1), axis=0)
        return [(int(target), int(reached)) for target, reached in found]

    def _targets(self, row: int) -> NDArray[np.int32]:
        """Return by byte the row that a row leads to, int32 ``[256]``, DEAD for none."""
        table = self.table
        targets: NDArray[np.int32] = table.cells[table.base[row] + table.byte_maps[table.kind[row]]]
        return targets
