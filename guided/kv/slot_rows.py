"""Rows of numbers by slot: as they are, or as bytes with a scale for each head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch

__all__ = ["DenseRows", "Int8Rows", "SlotRows", "StoredNumbers"]

_LINE: Final = 64
"""Bytes of a line of the processor's caches, at which rows begin."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredNumbers:
    """Rows as they lie in memory, for kernels that read them there."""

    numbers: torch.Tensor
    """``[slots, heads, size]``."""
    scales: torch.Tensor | None
    """What to multiply them by, ``[slots, heads, 1]``; ``None`` is nothing."""


class SlotRows(Protocol):
    """The keys, or the values, of one layer."""

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        ...

    def write(self, slots: torch.Tensor, rows: torch.Tensor) -> None:
        """Put ``rows``, ``[rows, heads, size]``, into different ``slots``, ``[rows]``."""
        ...

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """The rows in ``slots``, ``[rows, heads, size]``; a copy."""
        ...

    def view(self, first: int, last: int) -> torch.Tensor:
        """The rows of slots ``first`` up to ``last``, exclusive, without a copy if it can be."""
        ...

    def copy(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copy rows between slots; all are read before any is written."""
        ...

    @property
    def stored(self) -> StoredNumbers:
        """The memory itself."""
        ...


class DenseRows:
    """Rows in the type they are computed in."""

    __slots__ = ("_rows",)

    def __init__(
        self, num_slots: int, heads: int, size: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._rows = _zeros(num_slots, heads, size, dtype=dtype, device=device)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    @property
    def stored(self) -> StoredNumbers:
        return StoredNumbers(self._rows, None)

    def write(self, slots: torch.Tensor, rows: torch.Tensor) -> None:
        self._rows.index_copy_(0, slots, rows.to(self._rows.dtype))

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        return self._rows.index_select(0, slots)

    def view(self, first: int, last: int) -> torch.Tensor:
        return self._rows[first:last]

    def copy(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        self._rows.index_copy_(0, targets, self._rows.index_select(0, sources))


class Int8Rows:
    """Rows as int8, each head of each slot with the scale that its largest number needs.

    A number ``x`` of a head whose largest is ``m`` comes back within ``m / 254``, before it is
    rounded to ``dtype``.
    """

    __slots__ = ("_bytes", "_dtype", "_scales")

    def __init__(
        self, num_slots: int, heads: int, size: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._dtype = dtype
        self._bytes = _zeros(num_slots, heads, size, dtype=torch.int8, device=device)
        self._scales = _zeros(num_slots, heads, 1, dtype=torch.float32, device=device)

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes + self._scales.nbytes

    @property
    def stored(self) -> StoredNumbers:
        return StoredNumbers(self._bytes, self._scales)

    def write(self, slots: torch.Tensor, rows: torch.Tensor) -> None:
        exact = rows.float()
        scales = exact.abs().amax(dim=-1, keepdim=True) / 127  # [rows, heads, 1]
        # A head that is all zero has scale 0; any divisor keeps its bytes 0.
        steps = exact / torch.where(scales == 0, 1, scales)
        self._bytes.index_copy_(0, slots, steps.round().clamp(-127, 127).to(torch.int8))
        self._scales.index_copy_(0, slots, scales)

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        return self._exact(self._bytes.index_select(0, slots), self._scales.index_select(0, slots))

    def view(self, first: int, last: int) -> torch.Tensor:
        return self._exact(self._bytes[first:last], self._scales[first:last])

    def copy(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        for rows in (self._bytes, self._scales):
            rows.index_copy_(0, targets, rows.index_select(0, sources))

    def _exact(self, steps: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return (steps * scales).to(self._dtype)


def _zeros(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros, because a slot that was never written may be read under a mask, and 0 * NaN is NaN.

    On the CPU they are the system's own, which takes no memory for what is not written to.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    nbytes = math.prod(shape) * dtype.itemsize
    memory = np.zeros(nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return torch.from_numpy(memory[start : start + nbytes]).view(dtype).view(shape)
