"""Matrices that torch multiplies, by MKL and oneDNN.

For float32, the reference, and for bf16 and int8 where a processor has no kernel of ours or theirs
is faster.
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from guided.model.cpu.matrix import Numbers

__all__ = ["Fp32Matrix", "OneDnnBf16Matrix", "multiply_int8", "pack_int8", "whole_tiles"]

_USUAL_ROWS = 8
"""Rows for which oneDNN chooses how it lays the weights out; any number can be multiplied."""
_TILE = 16


def whole_tiles(rows: int) -> int:
    """``rows``, and those that fill the last tile of 16: they are free up to 64.

    For every number of rows that it ever multiplies by a matrix, oneDNN makes machine code and
    keeps half a MiB: 393 MiB for four matrices and 200 numbers.
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


class OneDnnBf16Matrix:
    """Weights as bf16, for processors that have no kernel of ours.

    Rows are rounded to bf16, and oneDNN multiplies them by weights in its own layout and rounds the
    products too: a row does not come out the same among few and among many.
    """

    __slots__ = ("_bias", "_packed", "nbytes")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        plain = weight.to(torch.bfloat16).contiguous()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(plain, _USUAL_ROWS)
        self._bias = None if bias is None else bias.to(torch.bfloat16)
        self.nbytes = plain.nbytes

    def multiply(self, rows: Numbers) -> Numbers:
        count, width = rows.shape
        rounded = torch.zeros(whole_tiles(count), width, dtype=torch.bfloat16)
        rounded[:count] = torch.from_numpy(rows)
        found = torch.ops.mkldnn._linear_pointwise.default(
            rounded, self._packed, self._bias, "none", [], ""
        )
        numbers: Numbers = found[:count].float().numpy()
        return numbers


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
