"""States between two tokens of JSON, where white space may stand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from guided.machine.table import TransitionTable

__all__ = ["StructuralStates"]

_SPACES: Final = b" \t\n\r"


class StructuralStates:
    """Adds states in which one of a few bytes comes next, or white space before it.

    ``max_spaces`` is how much white space may stand in one place, ``None`` for any amount.
    ``unavailable_bytes`` are those without a token.
    """

    def __init__(
        self, table: TransitionTable, max_spaces: int | None, unavailable_bytes: Collection[int]
    ) -> None:
        self._table = table
        self._max_spaces = max_spaces
        self._spaces = tuple(byte for byte in _SPACES if byte not in unavailable_bytes)
        self.between: set[int] = set()
        """The states of an open container between two members or items."""

    def add(
        self,
        edges: dict[int, int],
        *,
        spaced: bool = True,
        next_byte: int | None = None,
        between: bool = False,
    ) -> int:
        """Add a state between two tokens of JSON; return the row that is entered first.

        ``spaced`` allows white space as the options do. ``between`` also adds its rows to
        ``self.between``. The other arguments are as for ``TransitionTable.add_row``; ``edges`` is
        not empty and has no white space. Each call adds new rows.
        """
        max_spaces, spaces = self._max_spaces if spaced else 0, self._spaces
        if max_spaces == 0 or not spaces:
            states = [self._table.add_row(edges, next_byte=next_byte)]
        elif max_spaces is None:
            states = [self._table.add_row(edges, next_byte=next_byte, loop_bytes=spaces)]
        else:
            # A state that counts spaces is entered by the first of them: one more is needed before.
            inner = self._table.add_row(
                edges, next_byte=next_byte, loop_bytes=spaces, bounds=(0, max_spaces)
            )
            outer = {**edges, **dict.fromkeys(spaces, inner)}
            states = [self._table.add_row(outer, next_byte=next_byte), inner]
        if between:
            self.between.update(states)
        return states[0]
