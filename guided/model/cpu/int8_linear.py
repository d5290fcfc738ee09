"""Matrices of int8, multiplied by rows that are sums of two int8.

A row of activations has outliers, and one int8 with a scale a row loses what lies beside them. So a
row goes in twice: rounded to int8, and what the rounding left, on steps 254 times finer, again as
int8. Together that is more than 15 bits, while up to 16 rows cost what one costs::

    row     0.81  -127.0   3.37        scale 1
    coarse     1    -127      3
    fine     -48       0     94        steps of 1 / 254

Products of int8 add up exactly, so a row comes out the same whatever rows stand beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from guided.model.cpu.kernel import kernel
from guided.model.cpu.linear import Numbers
from guided.model.cpu.numbers import farthest

__all__ = ["Int8Linear", "multiply_int8", "pack_int8"]

_MOST = 127
_FINER = 254
_USUAL_ROWS = 8


def pack_int8(weight: torch.Tensor) -> torch.Tensor:
    """An int8 matrix, ``[out, in]``, in oneDNN's own layout."""
    packed: torch.Tensor = torch.ops.onednn.qlinear_prepack(weight, [_USUAL_ROWS, weight.shape[1]])
    return packed


def multiply_int8(
    rows: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    """int8 ``[rows, in]`` → float32 ``[rows, out]``, each output times its scale."""
    found: torch.Tensor = torch.ops.onednn.qlinear_pointwise.default(
        rows, 1.0, 0, packed, scales, offsets, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return found


class Int8Linear:
    """Weights as int8 with a scale for each output."""

    __slots__ = ("_bias", "_offsets", "_packed", "_scales", "nbytes")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        exact = weight.float()
        scales = exact.abs().amax(dim=1) / _MOST  # [out]
        # Outputs that are all zero have scale 0; any divisor keeps their bytes 0.
        steps = exact / torch.where(scales == 0, 1, scales)[:, None]
        self._packed = pack_int8(steps.round().to(torch.int8))
        self._scales = scales
        self._offsets = torch.zeros(len(scales), dtype=torch.int32)
        outputs = len(scales)
        self._bias = np.zeros(outputs, np.float32) if bias is None else bias.float().numpy().copy()
        self.nbytes = steps.numel() + 4 * outputs

    def __call__(self, rows: Numbers) -> Numbers:
        count, width = rows.shape
        steps = torch.empty(2 * count, width, dtype=torch.int8)
        scales = np.empty(count, np.float32)
        _split(rows, steps.numpy(), scales)
        products: Numbers = multiply_int8(steps, self._packed, self._scales, self._offsets).numpy()
        _join(products, scales, self._bias)
        return products[:count]


@kernel
def _split(rows: Any, steps: Any, scales: Any) -> None:
    """Coarse steps of all rows, and below them fine steps of what those leave."""
    for t in range(len(rows)):
        row, coarse, fine = rows[t], steps[t], steps[len(rows) + t]
        most = max(farthest(row), np.float32(1e-30))
        scales[t] = most / np.float32(_MOST)
        per_step = np.float32(_MOST) / most
        for d in range(len(row)):
            exact = row[d] * per_step
            nearest = np.floor(exact + np.float32(0.5))
            coarse[d] = np.int8(nearest)
            fine[d] = np.int8(np.floor((exact - nearest) * np.float32(_FINER) + np.float32(0.5)))


@kernel
def _join(products: Any, scales: Any, bias: Any) -> None:
    """Put coarse and fine products together, in the place of the coarse ones."""
    count = len(scales)
    for t in range(count):
        coarse, fine, scale = products[t], products[count + t], scales[t]
        for d in range(len(coarse)):
            finer = fine[d] * np.float32(1 / _FINER)
            coarse[d] = (coarse[d] + finer) * scale + bias[d]
