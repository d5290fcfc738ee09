"""Where the bytes of a row lead, compiled by numba."""

from __future__ import annotations

from guided.machine.table_layout import BASE, KIND
from guided.masks.blank import BLANKS
from guided.regular.dfa import DEAD
from guided.runtime.kernel import inlined, kernel

__all__ = ["count_bytes", "loop_behind"]

_BLANKS = tuple(BLANKS)


@inlined
def _behind_most(rows, cells, byte_maps, row):  # type: ignore[no-untyped-def]
    """The row that half of the bytes or more lead to, of those that lead on; DEAD for none."""
    base, kind = rows[row, BASE], rows[row, KIND]
    most, votes, live = DEAD, 0, 0
    for byte in range(256):
        target = cells[base + byte_maps[kind, byte]]
        if target != DEAD:
            live += 1
            if votes == 0:
                most = target
            votes += 1 if target == most else -1
    votes = 0
    for byte in range(256):
        votes += cells[base + byte_maps[kind, byte]] == most
    return most if 2 * votes >= live else DEAD


@kernel
def loop_behind(rows, cells, byte_maps, row):  # type: ignore[no-untyped-def]
    """The row that most bytes lead to, if most bytes stay there; DEAD for none, or itself."""
    most = _behind_most(rows, cells, byte_maps, row)
    if most in (DEAD, row) or _behind_most(rows, cells, byte_maps, most) != most:
        return DEAD
    return most


@kernel
def count_bytes(rows, cells, byte_maps, row):  # type: ignore[no-untyped-def]
    """How many bytes lead on from a row, and how many blanks lead to the row itself."""
    base, kind = rows[row, BASE], rows[row, KIND]
    live = 0
    for byte in range(256):
        live += cells[base + byte_maps[kind, byte]] != DEAD
    loops = 0
    for blank in _BLANKS:
        loops += cells[base + byte_maps[kind, blank]] == row
    return live, loops
