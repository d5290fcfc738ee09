"""Matrices of int8, multiplied by rows that are sums of two int8.

A row of activations has outliers, and one int8 with a scale for the row loses the smaller numbers.
So a row is multiplied twice: rounded to int8, and its rounding error, on steps 254 times finer,
again as int8. Together that is more than 15 bits, while up to 16 rows cost what one costs::

    row     0.81  -127.0   3.37        scale 1
    coarse     1    -127      3
    fine     -48       0     94        steps of 1 / 254

Products of int8 add up exactly, so a row's product is the same whatever rows stand beside it, and
whether oneDNN computes it or a kernel of ours (``int8_avx512``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from guided.model.cpu.instructions import InstructionSet, best_instructions
from guided.model.cpu.int8_avx512 import FINER, Int8Avx512
from guided.model.cpu.int8_layout import Int8Layout, in_steps
from guided.model.cpu.kernel import exact_kernel, kernel
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.numbers import farthest
from guided.model.cpu.onednn_matrix import multiply_int8, pack_int8, whole_tiles

__all__ = ["MOST_STREAMED", "Int8Matrix", "is_kept_twice"]

_MOST = 127
MOST_STREAMED = 16
"""Rows up to which reading the weights takes most of the time, so that tiles gain nothing."""


def is_kept_twice() -> bool:
    """Whether oneDNN is used for many rows and our kernel for few, each with its own layout.

    That is so with tiles (AMX), which ours does not use. Elsewhere ours takes any number of rows:
    oneDNN may take a thousand times as long (AMD EPYC, torch 2.13).
    """
    return best_instructions() is InstructionSet.AMX


class Int8Matrix:
    """Weights as int8 with a scale for each output, for our kernel in ``memory`` of its own."""

    __slots__ = ("_bias", "_offsets", "_packed", "_scales", "_stream", "_width", "nbytes")

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, memory: LargePages | None = None
    ) -> None:
        """Without ``memory`` oneDNN multiplies all rows."""
        steps, self._scales = in_steps(weight)
        outputs, self._width = weight.shape
        self._offsets = torch.zeros(outputs, dtype=torch.int32)
        self._bias = np.zeros(outputs, np.float32) if bias is None else bias.float().numpy().copy()
        self._stream = self._packed = None
        if memory is not None:
            self._stream = Int8Avx512(Int8Layout.of(steps, self._scales, memory), bias)
            self._width = self._stream.layout.inputs
        if memory is None or is_kept_twice():
            self._packed = pack_int8(steps)
        copies = (self._stream is not None) + (self._packed is not None)
        self.nbytes = copies * steps.numel() + 4 * outputs

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        count, inputs = rows.shape
        steps = torch.zeros(whole_tiles(2 * count), self._width, dtype=torch.int8)
        sums, scales = np.empty(2 * count, np.int32), np.empty(count, np.float32)
        _split(rows, steps.numpy(), sums, scales)
        if self._stream is not None and (self._packed is None or count <= MOST_STREAMED):
            return self._stream(steps.numpy()[: 2 * count], sums, scales)
        assert self._packed is not None, "neither layout"
        products: Numbers = multiply_int8(
            steps[:, :inputs], self._packed, self._scales, self._offsets
        ).numpy()
        _join(products, scales, self._bias)
        return products[:count]


@kernel
def _split(rows: Any, steps: Any, sums: Any, scales: Any) -> None:
    """Write coarse steps of all rows, below them fine steps of the remainders, and their sums."""
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
    """Combine coarse and fine products, in the place of the coarse ones."""
    count = len(scales)
    for t in range(count):
        coarse, fine, scale = products[t], products[count + t], scales[t]
        for d in range(len(coarse)):
            finer = fine[d] * np.float32(1 / FINER)
            coarse[d] = (coarse[d] + finer) * scale + bias[d]
