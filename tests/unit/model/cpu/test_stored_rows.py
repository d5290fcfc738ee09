"""Rows in steps: rounded operation by operation, as in numpy, on every processor."""

from __future__ import annotations

import numpy as np
import pytest

from guided.model.cpu.block_types import BLOCK_TYPES
from guided.model.cpu.instructions import InstructionSet
from guided.model.cpu.stored_layout import CELL, bits_apart
from guided.model.cpu.stored_rows import LARGEST, RowForm, round_rows


@pytest.mark.parametrize("instructions", [InstructionSet.PORTABLE, InstructionSet.AVX2])
@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q6_K", "Q8_0"])
def test_rows_are_rounded_to_the_last_bit(name: str, instructions: InstructionSet) -> None:
    form = BLOCK_TYPES[name].form
    row_form = RowForm.of(form, bits_apart(form, instructions))
    rows = np.random.default_rng(0).standard_normal((50, 20 * CELL)).astype(np.float32)
    rows[3, :CELL] = 0
    memory = np.empty(rows.size // CELL * row_form.cell_bytes, np.uint8)
    round_rows(rows, memory.ctypes.data, row_form.numbers())
    kind = np.dtype(f"i{row_form.apart // 8}")
    groups = CELL // row_form.group
    ends = np.cumsum([rows.size * kind.itemsize, rows.size // CELL * 4]).tolist()
    steps, scales, totals = np.split(memory, ends)

    cells = rows.reshape(-1, CELL)
    most = np.maximum(np.abs(cells).max(axis=1), np.float32(1e-30))
    largest = np.float32(LARGEST[row_form.step_bits])
    nearest = np.floor(cells * (largest / most)[:, None] + np.float32(0.5))
    np.testing.assert_array_equal(steps.view(kind).reshape(cells.shape), nearest)
    np.testing.assert_array_equal(scales.view(np.float32), most / largest)
    sums = nearest.reshape(len(cells), groups, -1).sum(axis=2)
    if row_form.has_least:
        factors = sums.astype(np.float32) * (most / largest)[:, None]
        np.testing.assert_array_equal(totals.view(np.float32), factors.ravel())
    else:
        moved = -row_form.offset * sums.astype(np.int32)
        np.testing.assert_array_equal(totals.view(np.int32), moved.ravel())
