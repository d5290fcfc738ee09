"""Attention of one model call in one group of layers.

A sequence with very few new tokens, as all have that decode, is left to a kernel that reads the
cache where it lies. One with more has its rows gathered for torch's attention, which from there on
is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

from guided.model.cpu.few_attention import ROWS_AT_ONCE, attend_few
from guided.model.cpu.layer_cache import LayerCache
from guided.model.cpu.linear import Numbers
from guided.model.cpu.seen_rows import SeenRows

__all__ = ["Attention"]

_FEW = 4
"""So many new tokens at most has a sequence that is left to the kernel."""


class Attention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(self, seen: Sequence[SeenRows], *, heads: int, kv_heads: int, size: int) -> None:
        starts = np.cumsum([0, *(len(rows.sees) for rows in seen)])
        numbered = list(zip(starts.tolist(), seen, strict=False))
        few = [each for each in numbered if len(each[1].sees) <= _FEW]
        self.new_slots = np.concatenate([rows.new_slots for rows in seen])  # [tokens]
        self._few = _Few(few, heads // kv_heads, size) if few else None
        self._many = [
            _Many(start, rows, heads, size) for start, rows in numbered if len(rows.sees) > _FEW
        ]
        self._width = heads * size

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float) -> Numbers:
        """Queries, the first columns of ``mixed`` → ``[tokens, heads * size]``."""
        output = np.empty((len(mixed), self._width), np.float32)
        if self._few is not None:
            self._few.attend(mixed, cache, scale, output)
        for part in self._many:
            part.attend(mixed, cache, scale, output)
        return output


class _Few:
    """Sequences with few new tokens, and the room in which the kernel works."""

    def __init__(self, numbered: Sequence[tuple[int, SeenRows]], shared: int, size: int) -> None:
        counts = [len(rows.sees) for _, rows in numbered]
        lengths = [len(rows.slots) for _, rows in numbered]
        self._sequences = (
            np.array([start for start, _ in numbered]),
            np.array(counts),
            np.concatenate([rows.slots for _, rows in numbered]),
            np.cumsum([0, *lengths]),
            _one_below_the_other([rows.sees for _, rows in numbered]),
        )
        most = max(counts) * shared
        self._room = (
            np.empty((ROWS_AT_ONCE, size), np.float32),
            np.empty((most, size), np.float32),
            np.empty((most, max(lengths)), np.float32),
        )

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float, output: Numbers) -> None:
        attend_few(
            mixed,
            cache.key_numbers,
            cache.value_numbers,
            *self._sequences,
            np.float32(scale),
            *self._room,
            output,
        )


def _one_below_the_other(tables: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    width = max(table.shape[1] for table in tables)
    joined = np.zeros((sum(len(table) for table in tables), width), np.bool_)
    at = 0
    for table in tables:
        joined[at : at + len(table), : table.shape[1]] = table
        at += len(table)
    return joined


class _Many:
    """One sequence with many new tokens."""

    def __init__(self, start: int, rows: SeenRows, heads: int, size: int) -> None:
        self._tokens = slice(start, start + len(rows.sees))
        self._shape = (len(rows.sees), heads, size)
        first, count = int(rows.slots[0]), len(rows.slots)
        in_a_row = np.array_equal(rows.slots, np.arange(first, first + count))
        self._span = slice(first, first + count) if in_a_row else None
        self._slots = torch.from_numpy(rows.slots)
        sees = torch.from_numpy(rows.sees)
        self._mask = torch.zeros(sees.shape).masked_fill_(~sees, float("-inf"))

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float, output: Numbers) -> None:
        new, heads, size = self._shape
        keys, values = self._rows(cache.keys), self._rows(cache.values)
        asked = torch.from_numpy(mixed[self._tokens, : heads * size]).view(new, heads, size)
        self._mask = self._mask.to(keys.dtype)
        found = scaled_dot_product_attention(
            asked.to(keys.dtype).transpose(0, 1)[None],
            keys.transpose(0, 1)[None],
            values.transpose(0, 1)[None],
            attn_mask=self._mask,
            scale=scale,
            enable_gqa=heads != keys.shape[1],
        )  # [1, heads, new, size]
        target = torch.from_numpy(output[self._tokens]).view(new, heads, size)
        target.copy_(found[0].transpose(0, 1))

    def _rows(self, cache: torch.Tensor) -> torch.Tensor:
        """``[rows, kv heads, size]``, copied only where they do not lie in a row."""
        return cache.index_select(0, self._slots) if self._span is None else cache[self._span]
