"""Matrices of float32 and of bf16."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import linear

__all__ = ["Bf16Linear", "Fp32Linear", "Linear", "Numbers", "whole_tiles"]

Numbers = NDArray[np.float32]

_USUAL_ROWS = 8
"""Rows for which oneDNN chooses how it lays the weights out; any number can be multiplied."""
_TILE = 16


def whole_tiles(rows: int) -> int:
    """So many rows and those that fill the last tile of 16: free up to 64.

    For every number of rows that it ever multiplies by a matrix, oneDNN makes machine code and
    keeps half a MiB: 393 MiB for four matrices and 200 numbers.
    """
    return -(-rows // _TILE) * _TILE


class Linear(Protocol):
    """A matrix in some format."""

    @property
    def nbytes(self) -> int:
        """Memory taken by its weights."""
        ...

    def __call__(self, rows: Numbers) -> Numbers:
        """``[tokens, in]`` → ``[tokens, out]``, an array of its own that may be written to."""
        ...


class Fp32Linear:
    """The reference."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight.float().contiguous()
        self._bias = None if bias is None else bias.float()

    @property
    def nbytes(self) -> int:
        return self._weight.nbytes

    def __call__(self, rows: Numbers) -> Numbers:
        found: Numbers = linear(torch.from_numpy(rows), self._weight, self._bias).numpy()
        return found


class Bf16Linear:
    """Weights as bf16, for processors that have no kernel of ours (``pairs``).

    Rows are rounded to bf16, and oneDNN multiplies them by weights in its own layout and rounds the
    products too: a row does not come out the same among few and among many.
    """

    __slots__ = ("_bias", "_packed", "nbytes")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        plain = weight.to(torch.bfloat16).contiguous()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(plain, _USUAL_ROWS)
        self._bias = None if bias is None else bias.to(torch.bfloat16)
        self.nbytes = plain.nbytes

    def __call__(self, rows: Numbers) -> Numbers:
        count, width = rows.shape
        rounded = torch.zeros(whole_tiles(count), width, dtype=torch.bfloat16)
        rounded[:count] = torch.from_numpy(rows)
        found = torch.ops.mkldnn._linear_pointwise.default(
            rounded, self._packed, self._bias, "none", [], ""
        )
        numbers: Numbers = found[:count].float().numpy()
        return numbers
