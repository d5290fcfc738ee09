"""The keys and values of one group of layers, in the slots of its pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from guided.kv.layer_shape import LayerShape
from guided.kv.reservation import SlotCopies
from guided.kv.slot_rows import DenseRows, Int8Rows, SlotRows, StoredNumbers

__all__ = ["PagedStorage", "bytes_per_slot"]

_SCALE_BYTES = 4


def bytes_per_slot(
    layers: Iterable[LayerShape], dtype: torch.dtype, *, is_quantised: bool = False
) -> int:
    """Memory that one token takes in these layers."""
    if is_quantised:
        return sum(layer.numbers + 2 * layer.heads * _SCALE_BYTES for layer in layers)
    return sum(layer.numbers * dtype.itemsize for layer in layers)


class PagedStorage:
    """Keys and values by layer, ``[num_slots, heads, size]`` each.

    ``layers`` are the group's layers by their number in the model. ``dtype`` is what comes back;
    ``is_quantised`` keeps int8 with a scale for each slot and head. Nothing here knows of blocks or
    sequences.
    """

    __slots__ = ("_device", "_keys", "_num_slots", "_values")

    def __init__(
        self,
        layers: Mapping[int, LayerShape],
        num_slots: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        is_quantised: bool = False,
    ) -> None:
        def empty(heads: int, size: int) -> SlotRows:
            rows = Int8Rows if is_quantised else DenseRows
            return rows(num_slots, heads, size, dtype=dtype, device=device)

        self._num_slots = num_slots
        self._device = device
        self._keys = {i: empty(layer.heads, layer.key_size) for i, layer in layers.items()}
        self._values = {i: empty(layer.heads, layer.value_size) for i, layer in layers.items()}

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return sum(rows.nbytes for rows in self._all())

    def locate(self, slots: NDArray[np.int64]) -> torch.Tensor:
        """Slots as the other methods want them: on the device, once a step and not once a layer.

        On the CPU the tensor shares the array's memory.
        """
        return torch.from_numpy(slots).to(self._device)

    def write(
        self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        """Put keys and values, ``[rows, heads, size]``, into ``slots``, ``[rows]``."""
        self._keys[layer].write(slots, key)
        self._values[layer].write(slots, value)

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values in ``slots``, ``[rows, heads, size]``, as copies."""
        return self._keys[layer].read(slots), self._values[layer].read(slots)

    def view(self, layer: int, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of slots ``first`` up to ``last``, exclusive.

        Not copied, unless they are quantised; do not write to them.
        """
        return self._keys[layer].view(first, last), self._values[layer].view(first, last)

    def whole(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values of a layer; see ``view``."""
        return self.view(layer, 0, self._num_slots)

    def stored(self, layer: int) -> tuple[StoredNumbers, StoredNumbers]:
        """All keys and values of a layer as they lie in memory; do not write to them."""
        return self._keys[layer].stored, self._values[layer].stored

    def copy(self, copies: SlotCopies) -> None:
        """Make the copies of a reservation or a commit, in every layer; overlaps are safe."""
        if not copies:
            return
        sources, targets = self.locate(copies.sources), self.locate(copies.targets)
        for rows in self._all():
            rows.copy(sources, targets)

    def _all(self) -> Iterable[SlotRows]:
        yield from self._keys.values()
        yield from self._values.values()
