"""Matrices of int8, multiplied by rows that are sums of two int8.

A row of activations has outliers, and one int8 with a scale a row loses what lies beside them. So a
row goes in twice: rounded to int8, and what the rounding left, on steps 254 times finer, again as
int8. Together that is more than 15 bits, while up to 16 rows cost what one costs::

    row     0.81  -127.0   3.37        scale 1
    coarse     1    -127      3
    fine     -48       0     94        steps of 1 / 254

Products of int8 add up exactly, so a row comes out the same whatever rows stand beside it, and
whether oneDNN multiplies it or a kernel of ours (``int8_avx512``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from guided.model.cpu.instructions import InstructionSet, chosen
from guided.model.cpu.int8_avx512 import FINER, Int8Avx512
from guided.model.cpu.kernel import exact_kernel, kernel
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.numbers import farthest
from guided.model.cpu.onednn_matrix import multiply_int8, pack_int8, whole_tiles

__all__ = ["MOST_STREAMED", "Int8Matrix", "is_kept_twice"]

_MOST = 127
MOST_STREAMED = 16
"""Rows up to which reading the weights is what takes the time, so that tiles gain nothing."""


def is_kept_twice() -> bool:
    """Whether oneDNN is for many rows and our kernel for few, each with a layout of its own.

    That is where there are tiles (AMX), which ours does not use. Elsewhere ours takes any number of
    rows: oneDNN may take a thousand times as long (AMD EPYC, torch 2.13).
    """
    return chosen() is InstructionSet.AMX


class Int8Matrix:
    """Weights as int8 with a scale for each output, for our kernel in ``memory`` of its own."""

    __slots__ = ("_bias", "_offsets", "_packed", "_scales", "_stream", "nbytes")

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, memory: LargePages | None = None
    ) -> None:
        exact = weight.float()
        scales = exact.abs().amax(dim=1) / _MOST  # [out]
        # Outputs that are all zero have scale 0; any divisor keeps their bytes 0.
        steps = (exact / torch.where(scales == 0, 1, scales)[:, None]).round().to(torch.int8)
        self._scales = scales
        self._offsets = torch.zeros(len(scales), dtype=torch.int32)
        outputs = len(scales)
        self._bias = np.zeros(outputs, np.float32) if bias is None else bias.float().numpy().copy()
        self._stream = None
        if memory is not None and Int8Avx512.fits(steps):
            self._stream = Int8Avx512(steps, scales.numpy(), self._bias, memory)
        self._packed = pack_int8(steps) if self._stream is None or is_kept_twice() else None
        copies = (self._stream is not None) + (self._packed is not None)
        self.nbytes = copies * steps.numel() + 4 * outputs

    def multiply(self, rows: Numbers) -> Numbers:
        count, width = rows.shape
        steps = torch.zeros(whole_tiles(2 * count), width, dtype=torch.int8)
        sums, scales = np.empty(2 * count, np.int32), np.empty(count, np.float32)
        _split(rows, steps.numpy(), sums, scales)
        if self._stream is not None and (self._packed is None or count <= MOST_STREAMED):
            return self._stream(steps.numpy()[: 2 * count], sums, scales)
        assert self._packed is not None, "neither layout"
        products: Numbers = multiply_int8(steps, self._packed, self._scales, self._offsets).numpy()
        _join(products, scales, self._bias)
        return products[:count]


@kernel
def _split(rows: Any, steps: Any, sums: Any, scales: Any) -> None:
    """Coarse steps of all rows, and below them fine steps of what those leave, and their sums."""
    for t in range(len(rows)):
        row, coarse, fine = rows[t], steps[t], steps[len(rows) + t]
        most = max(farthest(row), np.float32(1e-30))
        scales[t] = most / np.float32(_MOST)
        per_step = np.float32(_MOST) / most
        of_coarse = of_fine = np.int32(0)
        for d in range(len(row)):
            exact = row[d] * per_step
            nearest = np.floor(exact + np.float32(0.5))
            finer = np.floor((exact - nearest) * np.float32(FINER) + np.float32(0.5))
            coarse[d], fine[d] = np.int8(nearest), np.int8(finer)
            of_coarse += np.int32(nearest)
            of_fine += np.int32(finer)
        sums[t], sums[len(rows) + t] = of_coarse, of_fine


@exact_kernel
def _join(products: Any, scales: Any, bias: Any) -> None:
    """Put coarse and fine products together, in the place of the coarse ones."""
    count = len(scales)
    for t in range(count):
        coarse, fine, scale = products[t], products[count + t], scales[t]
        for d in range(len(coarse)):
            finer = fine[d] * np.float32(1 / FINER)
            coarse[d] = (coarse[d] + finer) * scale + bias[d]
