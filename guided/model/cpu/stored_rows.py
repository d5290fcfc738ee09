"""Rows in the form that products of codes need: whole numbers with a scale for each 32 of them.

They are *steps*: 1 / 127 of the largest of the 32, or 1 / 32639 for codes of eight bits. At most
half a step is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.addresses import floats, int8s, int16s, int32s
from guided.model.cpu.block_types import CodeForm
from guided.model.cpu.kernel import exact_inlined, inlined
from guided.model.cpu.numbers import farthest
from guided.model.cpu.stored_layout import BYTE, CELL, step_bits

__all__ = ["LARGEST", "RowForm", "round_rows", "steps_at"]

LARGEST: Final[Mapping[int, int]] = {BYTE: 127, 16: 32639}
"""The largest number of steps, by their bits."""


class RowForm(NamedTuple):
    """The form of a row; forms of codes with the same row form share the row."""

    step_bits: int
    apart: int
    """Bits from step to step."""
    offset: int
    has_least: bool
    group: int

    @classmethod
    def of(cls, form: CodeForm, apart: int) -> Self:
        return cls(step_bits(form), apart, form.offset, form.has_least, form.group)

    @property
    def cell_bytes(self) -> int:
        """Bytes that ``steps_at`` has for each cell of a row."""
        return CELL * self.apart // 8 + 4 + CELL // self.group * 4

    def numbers(self) -> NDArray[np.int64]:
        """Return what ``round_rows`` has to know."""
        largest = LARGEST[self.step_bits]
        return np.array([self.apart // 8, CELL, self.group, largest, self.offset])


@inlined
def steps_at(memory: Any, cells: Any, nbytes: Any) -> Any:
    """Return the addresses of rows' steps, of their scales and of their totals.

    ``memory`` is the address of rows that have ``cells`` in all, and steps of ``nbytes``. Steps are
    int8 or int16, ``[tokens, in]``; scales are float32, ``[tokens, cells]``; totals are
    ``[tokens, groups]``: int32, the negated contribution of the codes' offset, or for codes with a
    least number float32, the factor of that.
    """
    scales = memory + cells * CELL * nbytes
    return memory, scales, scales + cells * 4


@exact_inlined
def round_rows(rows: Any, memory: Any, form: Any) -> None:
    """Write ``[tokens, in]``, a multiple of 32, to an address as ``steps_at`` describes.

    ``form`` has the ``numbers`` of a ``RowForm``: bytes of a step; the size of a cell, because if
    LLVM knew it, it would take numbers one by one; the size of a group; the largest step; offset.
    """
    nbytes, cell, group = form[0], form[1], form[2]
    largest, offset = np.float32(form[3]), np.int32(form[4])
    cells = rows.size // cell
    steps, scales, totals = steps_at(memory, cells, nbytes)
    if nbytes == 1:
        _round_cells(rows, int8s(steps), floats(scales), cell, largest)
        _add_up(int8s(steps), floats(scales), totals, cells, cell // group, group, offset)
    else:
        _round_cells(rows, int16s(steps), floats(scales), cell, largest)
        _add_up(int16s(steps), floats(scales), totals, cells, cell // group, group, offset)


@exact_inlined
def _round_cells(rows: Any, steps: Any, scales: Any, cell: Any, largest: Any) -> None:
    of_row = rows.shape[1] // cell
    for t in range(len(rows)):
        for c in range(of_row):
            numbers = rows[t, c * cell : (c + 1) * cell]
            place = t * of_row + c
            most = max(farthest(numbers), np.float32(1e-30))
            scales[place] = most / largest
            per_step = largest / most
            for d in range(len(numbers)):
                rounded = np.floor(numbers[d] * per_step + np.float32(0.5))
                steps[place * cell + d] = np.int32(rounded)


@exact_inlined
def _add_up(
    steps: Any, scales: Any, totals: Any, cells: Any, groups: Any, group: Any, offset: Any
) -> None:
    for place in range(cells * groups):
        total = np.int32(0)
        for d in range(place * group, (place + 1) * group):
            total += steps[d]
        if offset:
            int32s(totals)[place] = total * -offset
        else:
            floats(totals)[place] = np.float32(total) * scales[place // groups]
