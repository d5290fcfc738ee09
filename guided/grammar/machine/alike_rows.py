"""Rows of two recognisers on one table that lead on alike, up to their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.table import (
    BEAT,
    DEAD,
    EXITS,
    HIGH,
    LABEL,
    LIKE,
    LOW,
    NEED,
    PLAIN,
    ROLE,
    TransitionTable,
)
from guided.runtime.fuel import spend

__all__ = ["AlikeRows", "Likeness"]

_MOST_ROWS: Final = 500
_SAME: Final = [EXITS, ROLE, BEAT, NEED, LOW, HIGH]
"""Columns in which rows that are alike agree."""
_ROW_WORK: Final = 30


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """What stands for each row, and for each label, that a row leads to."""

    number: int
    rows: dict[int, int]
    labels: dict[int, int]


class AlikeRows:
    """Finds out which rows are alike, each pair once."""

    def __init__(self, table: TransitionTable) -> None:
        self.table = table
        self._known: dict[tuple[int, int], Likeness | None] = {}

    def of(self, row: int, other: int) -> Likeness | None:
        """How ``other`` is like ``row``; ``None`` where it is not, and in names of members.

        Alike are rows that count alike, and from which the same bytes lead to alike rows: the same
        graph. Each label of the one then stands where one and the same label of the other does.
        """
        if (row, other) not in self._known:
            self._known[row, other] = self._compared(row, other)
        return self._known[row, other]

    def _compared(self, row: int, other: int) -> Likeness | None:
        rows, columns = {row: other}, self.table.rows
        labels: dict[int, int] = {}
        waiting = [row]
        for left in waiting:
            spend(_ROW_WORK)
            right = rows[left]
            here, there = columns[left], columns[right]
            if here[ROLE] != PLAIN or here[LIKE] != DEAD or there[LIKE] != DEAD:
                return None
            if (here[_SAME] != there[_SAME]).any():
                return None
            label, matching = int(here[LABEL]), int(there[LABEL])
            if (label == DEAD) != (matching == DEAD):
                return None
            if labels.setdefault(label, matching) != matching:
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
        return Likeness(len(self._known), rows, labels)

    def _pairs(self, row: int, other: int) -> list[tuple[int, int]] | None:
        """Where bytes lead from either row, ``None`` where one leads on from one of them alone."""
        here, there = self._targets(row), self._targets(other)
        live = here != DEAD
        if (live != (there != DEAD)).any():
            return None
        found = np.unique(np.stack([here[live], there[live]], axis=1), axis=0)
        return [(int(target), int(reached)) for target, reached in found]

    def _targets(self, row: int) -> NDArray[np.int32]:
        table = self.table
        targets: NDArray[np.int32] = table.cells[table.base[row] + table.byte_maps[table.kind[row]]]
        return targets
