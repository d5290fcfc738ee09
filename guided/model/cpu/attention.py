"""Attention of one model call in one group of layers, by torch's kernel over gathered rows.

The query heads that share a key head become rows of one query, so a key is read once for all of
them, and sequences of like size are padded and computed together: a call over eight sequences costs
a quarter of eight calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

from guided.model.cpu.kernel import kernel
from guided.model.cpu.layer_cache import LayerCache, numbers_of
from guided.model.cpu.linear import Numbers
from guided.model.cpu.numbers import narrowed, widened
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
            _Lot(lot, heads=heads, kv_heads=kv_heads, size=size, dtype=dtype)
            for lot in _of_like_size(list(zip(starts, seen, strict=False)))
        ]

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float) -> Numbers:
        """Queries, the first columns of ``mixed`` → ``[tokens, heads * size]``."""
        output = np.empty((len(mixed), self._width), np.float32)
        for lot in self._lots:
            lot.attend(mixed, cache, scale, output)
        return output


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


_PADDING = -1
"""In place of a packed token."""


class _Lot:
    """Sequences side by side, each padded to the most tokens and the most rows of any."""

    def __init__(
        self,
        sequences: Sequence[_Numbered],
        *,
        heads: int,
        kv_heads: int,
        size: int,
        dtype: torch.dtype,
    ) -> None:
        count = len(sequences)
        new = max(len(rows.sees) for _, rows in sequences)
        seen = max(len(rows.slots) for _, rows in sequences)
        shared = heads // kv_heads
        slots = np.zeros((count, seen), np.int64)
        self._tokens = np.full((count, new), _PADDING)
        sees = np.zeros((count, new, seen), np.bool_)
        sees[:, :, 0] = True  # of padding; a query has to see something
        for number, (start, rows) in enumerate(sequences):
            own, length = rows.sees.shape
            slots[number, :length] = rows.slots
            # Rows that are padding are another's, or its own again, and nobody sees them.
            slots[number, length:] = rows.slots[0]
            self._tokens[number, :own] = np.arange(start, start + own)
            sees[number, :own, :length] = rows.sees
        self._count = count
        self._slots = torch.from_numpy(slots.reshape(-1))
        self._span = _span(slots.reshape(-1))
        hidden = torch.from_numpy(~sees)[:, None].repeat(1, 1, shared, 1)
        self._mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        # One memory for the queries of all layers; those that are padding stay zero.
        self._query = torch.zeros(count, kv_heads, shared * new, size, dtype=dtype)
        grouped = (count, kv_heads, shared, new, size)
        self._query_numbers = numbers_of(self._query).reshape(grouped)

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float, output: Numbers) -> None:
        """Fill the rows of ``output``, ``[tokens, heads * size]``, that are the lot's."""
        _group(mixed, self._tokens, self._query_numbers)
        found = scaled_dot_product_attention(
            self._query,
            self._side_by_side(cache.keys),
            self._side_by_side(cache.values),
            attn_mask=self._mask,
            scale=scale,
        )  # [sequences, kv heads, shared * new, size]
        # In the order in which torch's kernel writes it, so that nothing is copied.
        _ungroup(numbers_of(found.transpose(1, 2).contiguous()), self._tokens, output)

    def _side_by_side(self, rows: torch.Tensor) -> torch.Tensor:
        """``[slots, kv heads, size]`` → ``[sequences, kv heads, rows, size]``."""
        gathered = rows.index_select(0, self._slots) if self._span is None else rows[self._span]
        return gathered.view(self._count, -1, *gathered.shape[1:]).transpose(1, 2)


@kernel
def _group(mixed: Any, tokens: Any, queries: Any) -> None:
    """Query heads of packed tokens, by the key head that they share.

    ``[tokens, heads * size]`` → ``[sequences, kv heads, shared, new, size]``.
    """
    count, kv_heads, shared, new, size = queries.shape
    for s in range(count):
        for n in range(new):
            if tokens[s, n] < 0:
                continue
            row = mixed[tokens[s, n]]
            for head in range(kv_heads * shared):
                source = row[head * size : (head + 1) * size]
                target = queries[s, head // shared, head % shared, n]
                for d in range(size):
                    target[d] = narrowed(source[d], target[d])


@kernel
def _ungroup(found: Any, tokens: Any, output: Any) -> None:
    """``[sequences, shared * new, kv heads, size]`` → ``[tokens, heads * size]``."""
    count, rows, kv_heads, size = found.shape
    new = tokens.shape[1]
    for s in range(count):
        for row in range(rows):
            token = tokens[s, row % new]
            if token < 0:
                continue
            for kv_head in range(kv_heads):
                head = kv_head * (rows // new) + row // new
                source = found[s, row, kv_head]
                target = output[token, head * size : (head + 1) * size]
                for d in range(size):
                    target[d] = widened(source[d])
