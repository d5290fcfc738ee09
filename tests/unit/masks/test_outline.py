"""Outlines of rows: where the bytes of each row lead, whatever maps tell the bytes apart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.machine.table import TransitionTable
from guided.masks.machine_kernels import MachineArrays
from guided.masks.outline import outline_of
from guided.masks.outline_kernels import search_outline

_LABEL = 9
_REACH = 8


def _arrays(table: TransitionTable, maps: NDArray[np.uint8]) -> MachineArrays:
    nothing = np.empty((0, 3))
    return MachineArrays(
        table.rows, table.cells, maps, nothing.astype(np.int64), nothing.astype(np.int32)
    )


def _digest(table: TransitionTable, row: int, maps: NDArray[np.uint8] | None = None) -> bytes:
    outline = outline_of(_arrays(table, table.byte_maps if maps is None else maps), row, _REACH)
    assert outline is not None
    return outline.digest


def test_outlines_are_equal_where_the_same_bytes_lead_to_rows_of_equal_outlines() -> None:
    table = TransitionTable(1_000)
    end = table.add_row({}, label=_LABEL)

    def row(*runs: tuple[int, int], further: int = ord("z")) -> int:
        """A row with runs of bytes to a second row, which has one last byte."""
        after = table.add_row({further: end})
        return table.add_row(
            {byte: after for first, last in runs for byte in range(first, last + 1)},
            loop_bytes=[ord("d")],
        )

    expected = _digest(table, row((0, 0), (97, 99), (255, 255)))
    assert _digest(table, row((0, 0), (97, 99), (255, 255))) == expected
    for other in (
        row((97, 99), (255, 255)),
        row((0, 0), (97, 98), (255, 255)),
        row((0, 0), (97, 99), (255, 255), further=ord("y")),
    ):
        assert _digest(table, other) != expected


def test_an_outline_is_that_of_the_maps_it_is_given() -> None:
    table = TransitionTable(1_000)
    end = table.add_row({}, label=_LABEL)
    row = table.add_row({ord("a"): end, ord("b"): end})
    maps = table.byte_maps.copy()
    maps[table.kind[row]] = 0
    maps[table.kind[row], ord("x")] = 1
    expected = _digest(table, row)
    assert _digest(table, row, maps) != expected
    assert _digest(table, row) == expected


def test_rows_further_away_than_tokens_reach_do_not_matter() -> None:
    table = TransitionTable(1_000)
    end, other = table.add_row({}, label=_LABEL), table.add_row({}, label=_LABEL + 1)

    def chain(last: int, length: int) -> int:
        row = last
        for _ in range(length):
            row = table.add_row({ord("a"): row})
        return row

    assert _digest(table, chain(end, 20)) == _digest(table, chain(other, 25))
    assert _digest(table, chain(end, 3)) != _digest(table, chain(end, 4))


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_a_search_ends_where_its_closing_rows_are_full(places: int) -> None:
    """Of the three closing rows the start, by its exit action, is the first."""
    table = TransitionTable(1_000)
    ends = [table.add_row({}, label=_LABEL + number) for number in range(2)]
    row = table.add_row(
        {ord("a") + number: end for number, end in enumerate(ends)}, label=_LABEL - 1
    )
    memory = np.full(8, -1, dtype=np.int32)
    size, *_ = search_outline(
        _arrays(table, table.byte_maps),
        row,
        _REACH,
        np.empty(4 * 259, dtype=np.int32),
        np.empty(4, dtype=np.int32),
        memory[:places],
        np.zeros(table.num_rows, dtype=np.int32),
        np.empty((1, 258), dtype=np.int32),
    )
    assert (memory[places:] == -1).all()
    assert (size > 0) == (places > 3)
