"""Rows in the form that products of codes need: whole numbers with a scale for each 32 of them.

They are *steps*: 1 / 127 of the largest of the 32, or 1 / 32639 for codes of eight bits. At most
half a step is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.block_types import CodeForm
from guided.model.cpu.kernel import exact_kernel
from guided.model.cpu.matrix import Numbers
from guided.model.cpu.numbers import farthest
from guided.model.cpu.stored_layout import BYTE, CELL, step_bits

__all__ = ["LARGEST", "RowForm", "Steps", "in_steps"]

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


class Steps(NamedTuple):
    """Rows as steps."""

    steps: NDArray[Any]
    """``[tokens, in]``, int8 or int16."""
    scales: Numbers
    """``[tokens, cells]``."""
    totals: NDArray[Any]
    """``[tokens, groups]``: the negated contribution of the codes' offset; for codes with a least
    number, the factor of that."""


def in_steps(rows: Numbers, form: RowForm) -> Steps:
    """Convert ``[tokens, in]``, a multiple of 32."""
    count, width = rows.shape
    steps = np.empty((count, width), np.int8 if form.apart == BYTE else np.int16)
    scales = np.empty((count, width // CELL), np.float32)
    totals = np.empty((count, width // form.group), np.float32 if form.has_least else np.int32)
    cells = np.ascontiguousarray(rows).reshape(-1, CELL), steps.reshape(-1, CELL)
    largest, offset = np.float32(LARGEST[form.step_bits]), np.int32(form.offset)
    _round(*cells, scales.reshape(-1), totals.reshape(-1, CELL // form.group), largest, offset)
    return Steps(steps, scales, totals)


@exact_kernel
def _round(cells: Any, steps: Any, scales: Any, totals: Any, largest: Any, offset: Any) -> None:
    """Write the numbers of each cell as steps of their own, and the totals of each group.

    The size of a cell is read from the array: if LLVM knows it, it takes numbers one by one.
    """
    width = cells.shape[1] // totals.shape[1]
    for c in range(len(cells)):
        most = max(farthest(cells[c]), np.float32(1e-30))
        scales[c] = most / largest
        per_step = largest / most
        for d in range(cells.shape[1]):
            steps[c, d] = np.int32(np.floor(cells[c, d] * per_step + np.float32(0.5)))
        for group in range(totals.shape[1]):
            total = np.int32(0)
            for d in range(width):
                total += steps[c, group * width + d]
            if offset:
                totals[c, group] = total * -offset
            else:
                totals[c, group] = np.float32(total) * scales[c]
