"""Outlines of rows: where the bytes of each row lead, whatever maps tell the bytes apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.machine.table import TransitionTable
from guided.masks.outline import moves_of, outline_of
from guided.masks.packed import Arrays

_LABEL = 9
_REACH = 8


def _arrays(table: TransitionTable, maps: NDArray[np.uint8]) -> Arrays:
    nothing = np.empty((0, 3))
    return table.rows, table.cells, maps, nothing.astype(np.int64), nothing.astype(np.int32)


def _read(moves: NDArray[np.int32]) -> dict[str, int]:
    """By the bytes that may follow the first row where they lead."""
    return {chr(byte): int(moves[0, byte]) for byte in range(256) if moves[0, byte]}


def test_moves_are_those_of_single_bytes_and_of_runs() -> None:
    table = TransitionTable(1_000)
    end = table.add_row({}, label=_LABEL)
    behind = table.add_row({ord("z"): end})
    row = table.add_row(
        {ord("a"): end, ord("b"): end, ord("c"): behind, 0: behind, 255: end}, itself=[ord("d")]
    )
    expected = {"\x00": 2, "a": -1, "b": -1, "c": 2, "d": 1, "\xff": -1}
    assert _read(moves_of(_arrays(table, table.byte_maps), row, _REACH)) == expected


def test_an_outline_is_that_of_the_maps_it_is_given() -> None:
    table = TransitionTable(1_000)
    end = table.add_row({}, label=_LABEL)
    row = table.add_row({ord("a"): end, ord("b"): end})
    maps = table.byte_maps.copy()
    maps[table.kind[row]] = 0
    maps[table.kind[row], ord("x")] = 1
    one, other = _arrays(table, table.byte_maps), _arrays(table, maps)
    assert _read(moves_of(one, row, _REACH)) == {"a": -1, "b": -1}
    assert _read(moves_of(other, row, _REACH)) == {"x": -1}
    outlines = [outline_of(arrays, row, _REACH) for arrays in (one, other, one)]
    digests = [outline.digest for outline in outlines if outline is not None]
    assert digests[0] == digests[2] != digests[1]
