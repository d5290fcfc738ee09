"""The keys and values of one layer, for torch and for kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

__all__ = ["LayerCache", "numbers_of"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerCache:
    """Two views of the same memory, ``[slots, kv heads, size]``."""

    keys: torch.Tensor
    values: torch.Tensor
    key_numbers: NDArray[Any]
    """float32, or the bits of bf16 in uint16, which numpy has no type for."""
    value_numbers: NDArray[Any]

    @classmethod
    def of(cls, keys: torch.Tensor, values: torch.Tensor) -> LayerCache:
        """Views of contiguous tensors of float32 or bf16, which share their memory."""
        return cls(keys, values, numbers_of(keys), numbers_of(values))


def numbers_of(rows: torch.Tensor) -> NDArray[Any]:
    """A contiguous tensor as float32, or as the bits of bf16; a view."""
    assert rows.is_contiguous(), "rows do not lie one behind the other"
    assert rows.dtype in (torch.float32, torch.bfloat16), f"rows of {rows.dtype}"
    numbers: NDArray[Any] = (
        rows.numpy() if rows.dtype == torch.float32 else rows.view(torch.uint16).numpy()
    )
    return numbers
