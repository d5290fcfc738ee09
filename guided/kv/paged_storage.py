"""The memory of one group of layers: keys and values by slot.

Every layer has two tensors of its own, and a slot is a row of them::

                  slot 0            slot 1            ...
    keys          [heads, size]     [heads, size]          in the type they are computed in,
    values        [heads, size]     [heads, size]          or int8 and then
    scales        [heads, 1]        [heads, 1]             float32, of keys and of values

Nothing here knows of blocks or sequences.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from guided.kv.layer_groups import LayerShape
from guided.kv.reservation import SlotCopies

__all__ = ["LayerSlots", "PagedStorage", "SlotTensor"]

_MAX_INT8: Final = 127


class SlotTensor:
    """The keys, or the values, of one layer.

    As int8, each head of each slot has the scale that its largest number needs: if the largest is
    ``m``, each number of the head is restored within ``m / 254``, before it is rounded to
    ``dtype``.
    """

    __slots__ = ("_dtype", "numbers", "scales")

    def __init__(
        self,
        num_slots: int,
        heads: int,
        size: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        is_quantised: bool = False,
    ) -> None:
        self._dtype = dtype
        kept = torch.int8 if is_quantised else dtype
        self.numbers = _zeros(num_slots, heads, size, dtype=kept, device=device)
        """``[slots, heads, size]``; kernels may read it, only ``write`` writes it."""
        self.scales: torch.Tensor | None = None
        """The factors of the numbers, ``[slots, heads, 1]``; ``None`` if they are not int8."""
        if is_quantised:
            self.scales = _zeros(num_slots, heads, 1, dtype=torch.float32, device=device)

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return self.numbers.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def write(self, slots: torch.Tensor, rows: torch.Tensor) -> None:
        """Put ``rows``, ``[rows, heads, size]``, into different ``slots``, ``[rows]``."""
        if self.scales is None:
            self.numbers.index_copy_(0, slots, rows.to(self.numbers.dtype))
            return
        exact = rows.float()
        scales = exact.abs().amax(dim=-1, keepdim=True) / _MAX_INT8  # [rows, heads, 1]
        # A head that is all zero has scale 0; any divisor keeps its bytes 0.
        steps = exact / scales.masked_fill(scales == 0, 1)
        self.numbers.index_copy_(
            0, slots, steps.round().clamp(-_MAX_INT8, _MAX_INT8).to(torch.int8)
        )
        self.scales.index_copy_(0, slots, scales)

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """Return a copy of the rows in ``slots``, ``[rows, heads, size]``."""
        numbers = self.numbers.index_select(0, slots)
        if self.scales is None:
            return numbers
        return (numbers * self.scales.index_select(0, slots)).to(self._dtype)

    def copy(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copy rows between slots; all are read before any is written."""
        for tensor in (self.numbers, self.scales):
            if tensor is not None:
                tensor.index_copy_(0, targets, tensor.index_select(0, sources))


class LayerSlots(NamedTuple):
    """The keys and values of one layer."""

    keys: SlotTensor
    values: SlotTensor

    def write(self, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Put keys and values, ``[rows, heads, size]`` each, into ``slots``, ``[rows]``."""
        self.keys.write(slots, key)
        self.values.write(slots, value)

    def read(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return copies of the keys and values in ``slots``, ``[rows, heads, size]`` each."""
        return self.keys.read(slots), self.values.read(slots)


class PagedStorage:
    """Keys and values by layer.

    ``layers`` has the group's layers by their number in the model. ``dtype`` is the type that is
    read back; ``is_quantised`` keeps int8 with a scale for each slot and head.
    """

    __slots__ = ("_device", "layers", "num_slots")

    def __init__(
        self,
        layers: Mapping[int, LayerShape],
        num_slots: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        is_quantised: bool = False,
    ) -> None:
        def empty(heads: int, size: int) -> SlotTensor:
            return SlotTensor(
                num_slots, heads, size, dtype=dtype, device=device, is_quantised=is_quantised
            )

        self._device = device
        self.num_slots = num_slots
        self.layers = {
            number: LayerSlots(
                empty(shape.heads, shape.key_size), empty(shape.heads, shape.value_size)
            )
            for number, shape in layers.items()
        }
        """Keyed by their number in the model."""

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return sum(tensor.nbytes for layer in self.layers.values() for tensor in layer)

    def locate(self, slots: NDArray[np.int64]) -> torch.Tensor:
        """Return slots as layers need them: on the device, once a step and not once a layer.

        On the CPU the tensor shares the array's memory.
        """
        return torch.from_numpy(slots).to(self._device)

    def copy(self, copies: SlotCopies) -> None:
        """Make the copies of a reservation or a commit, in every layer; overlaps are safe."""
        if not copies:
            return
        sources, targets = self.locate(copies.sources), self.locate(copies.targets)
        for layer in self.layers.values():
            for tensor in layer:
                tensor.copy(sources, targets)


def _zeros(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros: a mask may cover a slot that was never written, and 0 * NaN is NaN.

    On the CPU, memory that was never written takes no space. But an allocator may zero memory that
    was freed, and numpy requests pages of 2 MiB, of which every layer would have one for its keys
    and one for its values as soon as there is a token.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    nbytes = math.prod(shape) * dtype.itemsize
    pages = mmap.mmap(-1, max(1, nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system without large pages needs no advice
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.from_numpy(np.frombuffer(pages, np.uint8, nbytes)).view(dtype).view(shape)
