"""States between two tokens of JSON, where white space may stand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from guided.machine.table import TransitionTable

__all__ = ["StructuralStates"]

_SPACES: Final = b" \t\n\r"


class StructuralStates:
    """Lays down states in which one of a few bytes comes next, or white space before it.

    ``bound`` is how many white spaces may stand in one place, ``None`` for any number. ``missing``
    are bytes that the vocabulary cannot spell.
    """

    def __init__(self, table: TransitionTable, bound: int | None, missing: Collection[int]) -> None:
        self._table = table
        self._bound = bound
        self._spaces = tuple(byte for byte in _SPACES if byte not in missing)
        self.between: set[int] = set()
        """States of an open container in which nothing of its next member or item was written."""

    def state(
        self,
        edges: dict[int, int],
        *,
        spaced: bool = True,
        way: int | None = None,
        between: bool = False,
    ) -> int:
        """Lay down a state between two tokens of JSON, where white space may stand.

        ``edges`` and ``way`` are as for ``TransitionTable.add_row``. ``spaced`` allows white space
        as the options do. ``between`` records the states in which nothing of the next member or
        item was written, which completions have to know. Each call adds a new row, which callers
        keep by what it depends on. Returns the row that is entered first.
        """
        bound, spaces = self._bound if spaced else 0, self._spaces
        if bound == 0 or not spaces:
            states = [self._table.add_row(edges, way=way)]
        elif bound is None:
            states = [self._table.add_row(edges, way=way, itself=spaces)]
        else:
            # A state that counts blanks is entered by the first of them: one more is needed before.
            inner = self._table.add_row(edges, way=way, itself=spaces, bounds=(0, bound))
            shortest = min(edges, key=lambda byte: self._table.distance[edges[byte]])
            outer = {**edges, **dict.fromkeys(spaces, inner)}
            states = [self._table.add_row(outer, way=shortest if way is None else way), inner]
        if between:
            self.between.update(states)
        return states[0]
