"""Rows as products of codes want them: whole numbers with a scale for each 32 of them.

They are *steps*: of 1 / 127 of the largest of the 32, or beside codes of eight bits of 1 / 32639.
Half a step is lost at most.
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
"""A step, by its bits."""


class RowForm(NamedTuple):
    """What a row looks like; forms of codes that agree in it share the row."""

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
    """Rows."""

    steps: NDArray[Any]
    """``[tokens, in]``, int8 or int16."""
    scales: Numbers
    """``[tokens, cells]``."""
    totals: NDArray[Any]
    """``[tokens, groups]``: what the offset of codes adds, with its sign turned; where there is a
    least number, what it is multiplied by."""


def in_steps(rows: Numbers, form: RowForm) -> Steps:
    """``[tokens, in]``, a multiple of 32."""
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
    """The numbers of each cell as steps of their own, and what those of a group add up to.

    How many numbers a cell has is asked of the array: where LLVM knows, it takes one by one.
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
