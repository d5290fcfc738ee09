"""Attention of one model call in one group of layers, between rows of float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from guided.model.cpu.layer_cache import LayerCache
from guided.model.cpu.linear import Numbers
from guided.model.gathered_attention import GatheredAttention
from guided.model.seen_rows import SeenRows

__all__ = ["Attention"]


class Attention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(
        self, seen: Sequence[SeenRows], *, heads: int, size: int, dtype: torch.dtype
    ) -> None:
        self._heads, self._size = heads, size
        self._gathered = GatheredAttention(seen, dtype=dtype, device=torch.device("cpu"))
        self.new_slots = np.concatenate([rows.new_slots for rows in seen])  # [tokens]

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float) -> Numbers:
        """Queries, the first columns of ``mixed`` → ``[tokens, heads * size]``."""
        query = torch.from_numpy(mixed)[:, : self._heads * self._size]
        output = self._gathered.attend(
            query.view(len(query), self._heads, self._size), cache, scaling=scale
        )
        found: Numbers = output.flatten(1).numpy()
        return found
