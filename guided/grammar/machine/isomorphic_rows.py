"""Rows of two automata in one table that have the same graph, up to their exit actions.

The strings of two schemas, for example, differ only in what comes after them. If a text may be
in both, one row stands for the two, and an ``Isomorphism`` gives the row and the action of the
other::

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
from guided.runtime.fuel import spend

__all__ = ["IsomorphicRows", "Isomorphism"]

_MOST_ROWS: Final = 500
"""The most rows that are compared; what leads to more counts as different."""
_SAME: Final = [EXITS, ROLE, COUNT_EVENT, MIN_REMAINING, LOW, HIGH]
"""Columns in which isomorphic rows agree."""
_ROW_WORK: Final = 30
"""Units of work for each row that is compared (``spend``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Isomorphism:
    """Which row, and which exit action, corresponds to each that a row leads to.

    ``IsomorphicRows`` never drops one, so neither map may be changed.
    """

    number: int
    """Distinguishes those of one ``IsomorphicRows``."""
    rows: dict[int, int]
    """The row of the other for each row that the first leads to, itself included."""
    actions: dict[int, int]
    """The exit action of the other for each of these rows'; DEAD, which is none, maps to itself."""


class IsomorphicRows:
    """Finds which rows are isomorphic, each pair once."""

    def __init__(self, table: TransitionTable) -> None:
        self.table = table
        self._known: dict[tuple[int, int], Isomorphism | None] = {}
        """By row and other row; ``None`` for those that were found to differ. Nothing is ever
        dropped: an isomorphism has the number of pairs that were known before it."""

    def of(self, row: int, other: int) -> Isomorphism | None:
        """Return the map from ``row`` to ``other``; ``None`` if there is none, and in member names.

        Rows are isomorphic if they count alike, and the same bytes lead from them to isomorphic
        rows. Each exit action of the one then corresponds to one exit action of the other. ``None``
        also for rows that lead to more than _MOST_ROWS: they are not compared to the end.
        """
        if (row, other) not in self._known:
            self._known[row, other] = self._compared(row, other)
        return self._known[row, other]

    def _compared(self, row: int, other: int) -> Isomorphism | None:
        """Follow both rows side by side; ``None`` as soon as they differ.

        Every row and every action met on the left must always meet the same one on the right. The
        converse is not checked: several on the left may share one on the right, as the map is only
        read from left to right.
        """
        rows, columns = {row: other}, self.table.rows
        actions: dict[int, int] = {}
        waiting = [row]
        for left in waiting:
            spend(_ROW_WORK)
            right = rows[left]
            here, there = columns[left], columns[right]
            # In names the object decides what may follow; the mask of an overlay (OVERLAID_ROW) is made
            # from that of the row below, which the map would have to contain as well.
            if here[ROLE] != PLAIN or here[OVERLAID_ROW] != DEAD or there[OVERLAID_ROW] != DEAD:
                return None
            if (here[_SAME] != there[_SAME]).any():
                return None
            action, matching = int(here[LABEL]), int(there[LABEL])
            if (action == DEAD) != (matching == DEAD):
                return None
            if actions.setdefault(action, matching) != matching:
                return None
            pairs = self._pairs(left, right)
            if pairs is None:
                return None
            for target, reached in pairs:
                if target not in rows:
                    rows[target] = reached
                    waiting.append(target)
                elif rows[target] != reached:
                    return None
            if len(waiting) > _MOST_ROWS:
                return None
        return Isomorphism(len(self._known), rows, actions)

    def _pairs(self, row: int, other: int) -> list[tuple[int, int]] | None:
        """Return the pairs of rows that bytes lead to from both, each pair once.

        ``None`` if some byte may follow one of the rows and not the other.
        """
        here, there = self._targets(row), self._targets(other)
        live = here != DEAD
        if (live != (there != DEAD)).any():
            return None
        found = np.unique(np.stack([here[live], there[live]], axis=1), axis=0)
        return [(int(target), int(reached)) for target, reached in found]

    def _targets(self, row: int) -> NDArray[np.int32]:
        """By byte the row that a row leads to, int32 ``[256]``, DEAD for none."""
        table = self.table
        targets: NDArray[np.int32] = table.cells[table.base[row] + table.byte_maps[table.kind[row]]]
        return targets
