"""Attention of one model call in one group of layers, by torch's kernel over gathered rows.

The query heads that share a key head become rows of one query, so a key is read once for all of
them, and sequences of like size are padded and computed together: a call over eight sequences costs
a quarter of eight calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

from guided.model.cpu.layer_cache import LayerCache
from guided.model.cpu.linear import Numbers
from guided.model.cpu.seen_rows import SeenRows

__all__ = ["Attention"]

_MOST_WASTE = 2
"""A lot may be padded to so many times the work of its smallest sequence."""

_Numbered = tuple[int, SeenRows]
"""A sequence, and which of the packed tokens is its first."""


class Attention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(
        self,
        seen: Sequence[SeenRows],
        *,
        heads: int,
        kv_heads: int,
        size: int,
        dtype: torch.dtype,
    ) -> None:
        starts = np.cumsum([0, *(len(rows.sees) for rows in seen)]).tolist()
        self._width = heads * size
        self.new_slots = np.concatenate([rows.new_slots for rows in seen])  # [tokens]
        self._lots = [
            _Lot(lot, heads=heads, kv_heads=kv_heads, dtype=dtype)
            for lot in _of_like_size(list(zip(starts, seen, strict=False)))
        ]

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float) -> Numbers:
        """Queries, the first columns of ``mixed`` → ``[tokens, heads * size]``."""
        query = torch.from_numpy(mixed)[:, : self._width]
        if len(self._lots) == 1:
            output = self._lots[0].attend(query, cache, scale)
        else:
            output = torch.empty(query.shape)
            for lot in self._lots:
                output.index_copy_(0, lot.tokens, lot.attend(query, cache, scale))
        found: Numbers = output.numpy()
        return found


def _of_like_size(sequences: Sequence[_Numbered]) -> list[list[_Numbered]]:
    """Sequences in lots that may be padded to the largest of them, each lot in packed order."""
    lots: list[list[_Numbered]] = []
    most_new = most_rows = 0
    for each in sorted(sequences, key=lambda each: -each[1].sees.size):
        new, rows = each[1].sees.shape
        padded = max(most_new, new) * max(most_rows, rows)
        if not lots or padded > _MOST_WASTE * new * rows:
            lots.append([])
            most_new = most_rows = 0
        lots[-1].append(each)
        most_new, most_rows = max(most_new, new), max(most_rows, rows)
    return [sorted(lot, key=lambda each: each[0]) for lot in lots]


def _span(slots: NDArray[np.int64]) -> slice | None:
    """The slots as a slice, if they count up by one."""
    first, last = int(slots[0]), int(slots[-1]) + 1
    return slice(first, last) if np.array_equal(slots, np.arange(first, last)) else None


class _Lot:
    """Sequences side by side, each padded to the most tokens and the most rows of any."""

    def __init__(
        self, sequences: Sequence[_Numbered], *, heads: int, kv_heads: int, dtype: torch.dtype
    ) -> None:
        count = len(sequences)
        new = max(len(rows.sees) for _, rows in sequences)
        seen = max(len(rows.slots) for _, rows in sequences)
        self._grouping = (count, new, kv_heads, heads // kv_heads)
        slots = np.zeros((count, seen), np.int64)
        tokens = np.zeros((count, new), np.int64)
        sees = np.zeros((count, new, seen), np.bool_)
        sees[:, :, 0] = True  # of padding; a query has to see something
        for number, (start, rows) in enumerate(sequences):
            own, length = rows.sees.shape
            slots[number, :length] = rows.slots
            # Rows that are padding are another's, or its own again, and nobody sees them.
            slots[number, length:] = rows.slots[0]
            tokens[number, :own] = np.arange(start, start + own)
            sees[number, :own, :length] = rows.sees
        is_token = np.concatenate(
            [np.arange(new) < len(rows.sees) for _, rows in sequences]
        )  # [sequences * new]
        self.tokens = torch.from_numpy(tokens.reshape(-1)[is_token])
        self._places = None if is_token.all() else torch.from_numpy(np.flatnonzero(is_token))
        self._padded_tokens = torch.from_numpy(tokens.reshape(-1))
        self._slots = torch.from_numpy(slots.reshape(-1))
        self._span = _span(slots.reshape(-1))
        hidden = torch.from_numpy(~sees)[:, None].repeat(1, 1, heads // kv_heads, 1)
        self._mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))

    def attend(self, query: torch.Tensor, cache: LayerCache, scale: float) -> torch.Tensor:
        """float32 ``[packed tokens, heads * size]`` → those of the lot, likewise."""
        count, new, kv_heads, shared = self._grouping
        if len(self._padded_tokens) != len(query) or self._places is not None:
            query = query.index_select(0, self._padded_tokens)
        grouped = query.view(count, new, kv_heads, shared, -1)
        grouped = grouped.permute(0, 2, 3, 1, 4)  # [sequences, kv heads, shared, new, size]
        found = scaled_dot_product_attention(
            grouped.to(cache.keys.dtype).reshape(count, kv_heads, shared * new, -1),
            self._side_by_side(cache.keys),
            self._side_by_side(cache.values),
            attn_mask=self._mask,
            scale=scale,
        )  # [sequences, kv heads, shared * new, size]
        rows = found.view(count, kv_heads, shared, new, -1).permute(0, 3, 1, 2, 4)
        rows = rows.float().reshape(count * new, -1)
        return rows if self._places is None else rows.index_select(0, self._places)

    def _side_by_side(self, rows: torch.Tensor) -> torch.Tensor:
        """``[slots, kv heads, size]`` → ``[sequences, kv heads, rows, size]``."""
        gathered = rows.index_select(0, self._slots) if self._span is None else rows[self._span]
        return gathered.view(self._grouping[0], -1, *gathered.shape[1:]).transpose(1, 2)
