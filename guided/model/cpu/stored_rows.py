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
    totals = np.empty((count, width // form.group), np.int32)
    largest = np.float32(LARGEST[form.step_bits])
    _round(np.ascontiguousarray(rows), largest, steps, scales, totals)
    if form.has_least:
        spread = np.repeat(scales, CELL // form.group, axis=1) if form.group != CELL else scales
        with np.errstate(invalid="ignore"):  # what is no number is seen in the logits
            return Steps(steps, scales, totals.astype(np.float32) * spread)
    totals *= -form.offset
    return Steps(steps, scales, totals)


@exact_kernel
def _round(rows: Any, largest: Any, steps: Any, scales: Any, totals: Any) -> None:
    """Each 32 numbers of a row as steps of their own, and what those of a group add up to."""
    groups = totals.shape[1] // scales.shape[1]
    width = CELL // groups
    for t in range(len(rows)):
        for cell in range(scales.shape[1]):
            numbers = rows[t, cell * CELL : (cell + 1) * CELL]
            most = max(farthest(numbers), np.float32(1e-30))
            scales[t, cell] = most / largest
            per_step = largest / most
            target = steps[t, cell * CELL : (cell + 1) * CELL]
            for d in range(CELL):
                target[d] = np.int16(np.floor(numbers[d] * per_step + np.float32(0.5)))
            for group in range(groups):
                total = np.int32(0)
                for d in range(width):
                    total += np.int32(target[group * width + d])
                totals[t, cell * groups + group] = total
