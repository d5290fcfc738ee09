"""The keys and values of one sequence, in one contiguous stretch of memory a layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.kv.layer_shape import LayerShape
from guided.kv.slots import RowMove

__all__ = ["LayerShape", "SequenceStorage"]


class SequenceStorage:
    """Keys and values by layer, with a row for each slot of the sequence."""

    __slots__ = ("keys", "values")

    def __init__(
        self,
        layers: Sequence[LayerShape],
        capacity: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        def empty(heads: int, size: int) -> torch.Tensor:
            return torch.empty(1, heads, capacity, size, dtype=dtype, device=device)

        self.keys = [empty(layer.heads, layer.key_size) for layer in layers]
        """By layer, ``[1, heads, capacity, key_size]``."""
        self.values = [empty(layer.heads, layer.value_size) for layer in layers]
        """By layer, ``[1, heads, capacity, value_size]``."""

    def move(self, moves: Sequence[RowMove]) -> None:
        """Move the rows that a commit kept out of place."""
        if not moves:
            return
        sources = [move.source for move in moves]
        targets = [move.target for move in moves]
        # Indexing by a list copies the sources first, so overlapping moves are safe.
        for rows in (*self.keys, *self.values):
            rows[:, :, targets] = rows[:, :, sources]
