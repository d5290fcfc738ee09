"""Matrices that torch multiplies, by MKL and oneDNN.

For float32, the reference, and for many rows of int8 where there are tiles (AMX).
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from guided.model.cpu.matrix import Numbers

__all__ = ["Fp32Matrix", "multiply_int8", "pack_int8", "whole_tiles"]

_USUAL_ROWS = 8
"""Rows for which oneDNN chooses its layout of the weights; any number can be multiplied."""
_TILE = 16


def whole_tiles(rows: int) -> int:
    """Round ``rows`` up to whole tiles of 16: the additional rows are free up to 64.

    For every number of rows that it ever multiplies by a matrix, oneDNN compiles code and keeps
    half a MiB: 393 MiB for four matrices and 200 numbers.
    """
    return -(-rows // _TILE) * _TILE


class Fp32Matrix:
    """Weights as float32."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight.float().contiguous()
        self._bias = None if bias is None else bias.float()

    @property
    def nbytes(self) -> int:
        return self._weight.nbytes

    def multiply(self, rows: Numbers) -> Numbers:
        found: Numbers = linear(torch.from_numpy(rows), self._weight, self._bias).numpy()
        return found


def pack_int8(weight: torch.Tensor) -> torch.Tensor:
    """Return an int8 matrix, ``[out, in]``, in oneDNN's own layout."""
    packed: torch.Tensor = torch.ops.onednn.qlinear_prepack(weight, [_USUAL_ROWS, weight.shape[1]])
    return packed


def multiply_int8(
    rows: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    """Map int8 ``[rows, in]`` to float32 ``[rows, out]``, each output times its scale."""
    found: torch.Tensor = torch.ops.onednn.qlinear_pointwise.default(
        rows, 1.0, 0, packed, scales, offsets, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return found
