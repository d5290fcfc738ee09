"""Weights as int8 with a scale for each output, and their layout for our own kernels.

A matrix lies in blocks of 16 outputs, each from its first input to its last. A line of it is four
inputs of all outputs of a block, with 128 added to each weight, so that bytes are widened without a
sign; two neighbours are in the even bytes of an output, and two in the odd ones::

    w[0, k] w[0, k+2] w[0, k+1] w[0, k+3] | w[1, k] ...     and after them those of k + 4
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.llvm import LANES
from guided.model.cpu.matrix import LargePages

__all__ = ["INPUTS", "OFFSET", "Int8Layout", "in_steps"]

INPUTS: Final = 4
"""Inputs in a line."""
OFFSET: Final = 128
_MOST = 127


def in_steps(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round ``[out, in]`` to int8 on 255 steps of each output; return them and the step sizes."""
    exact = weight.float()
    scales = exact.abs().amax(dim=1) / _MOST
    # Outputs that are all zero have scale 0; any divisor keeps their bytes 0.
    steps = (exact / torch.where(scales == 0, 1, scales)[:, None]).round().to(torch.int8)
    return steps, scales


class Int8Layout(NamedTuple):
    """A matrix, padded with zeros to whole lines and blocks."""

    weights: NDArray[np.uint8]
    scales: NDArray[np.float32]
    outputs: int
    """Without the padding of the last block."""
    lines: int
    """Lines in a block."""

    @classmethod
    def of(cls, steps: torch.Tensor, scales: torch.Tensor, memory: LargePages) -> Self:
        """Lay out int8 ``[out, in]`` with its ``scales``, ``[out]``."""
        outputs, inputs = steps.shape
        lines, blocks = -(-inputs // INPUTS), -(-outputs // LANES)
        plain = steps.numpy()
        missing = blocks * LANES - outputs, lines * INPUTS - inputs
        if any(missing):
            plain = np.pad(plain, ((0, missing[0]), (0, missing[1])))
        weights = memory.take(plain.size)
        in_blocks = plain.reshape(blocks, LANES, lines, 2, 2).transpose(0, 2, 1, 4, 3)
        laid_out = weights.reshape(in_blocks.shape)
        np.add(in_blocks, np.int16(OFFSET), out=laid_out, casting="unsafe")
        found = np.zeros(blocks * LANES, np.float32)
        found[:outputs] = scales.numpy()
        return cls(weights, found, outputs, lines)

    @property
    def width(self) -> int:
        """Outputs, including the padding of the last block."""
        return len(self.scales)

    @property
    def inputs(self) -> int:
        """Inputs, including the padding of the last line."""
        return self.lines * INPUTS

    def pad_bias(self, bias: torch.Tensor | None) -> NDArray[np.float32]:
        """Return a bias for all of ``width``, zero where there is none."""
        found = np.zeros(self.width, np.float32)
        if bias is not None:
            found[: self.outputs] = bias.float().numpy()
        return found
