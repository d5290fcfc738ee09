"""Matrices of float32, the reference, which torch multiplies by MKL."""

from __future__ import annotations

import torch
from torch.nn.functional import linear

from guided.model.cpu.matrix import Numbers

__all__ = ["Fp32Matrix"]


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
