"""Attention in place is that of plain softmax, and comes out the same in any call."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from guided.model.cpu.attention import CpuAttention, LayerCache
from guided.model.visible import VisibleSlots

_SLOTS = 700
_SCALE = 0.3
_DTYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Heads:
    queries: int
    keys: int
    size: int

    @property
    def columns(self) -> int:
        return (self.queries + 2 * self.keys) * self.size


_HEADS = [
    *(Heads(1, 1, 16), Heads(6, 2, 8), Heads(4, 4, 80), Heads(9, 3, 64), Heads(5, 1, 256)),
    *(Heads(7, 1, 20), Heads(8, 1, 1)),
]


def random_cache(heads: Heads, dtype: torch.dtype) -> LayerCache:
    shape = _SLOTS, heads.keys, heads.size
    return LayerCache.of(torch.randn(shape).to(dtype), torch.randn(shape).to(dtype))


def random_rows(new: int, rows: int, seed: int) -> VisibleSlots:
    """Rows in random slots, of which each query sees half, and its own row."""
    generator = np.random.default_rng(seed)
    sees = generator.random((new, rows)) < 0.5
    sees[:, rows - new :] |= np.eye(new, dtype=np.bool_)
    return VisibleSlots(generator.permutation(_SLOTS)[:rows], sees)


def attend(
    queries: NDArray[np.float32], seen: list[VisibleSlots], heads: Heads, cache: LayerCache
) -> NDArray[np.float32]:
    attention = CpuAttention(seen, heads=heads.queries, kv_heads=heads.keys, size=heads.size)
    return attention.attend(queries, cache, _SCALE)


def in_slots(numbers: NDArray[Any], slots: torch.Tensor) -> NDArray[np.float64]:
    rows = torch.from_numpy(numbers)
    exact = rows.view(torch.bfloat16) if rows.dtype == torch.uint16 else rows
    found: NDArray[np.float64] = exact[slots].double().numpy()
    return found


def softmax_attention(
    queries: NDArray[np.float32], rows: VisibleSlots, heads: Heads, cache: LayerCache
) -> NDArray[np.float64]:
    """Attention by its textbook formula, in float64."""
    query = queries[:, : heads.queries * heads.size].reshape(len(queries), heads.queries, -1)
    slots = torch.from_numpy(rows.slots)
    keys, values = (in_slots(numbers, slots) for numbers in cache)
    found = np.empty(query.shape)
    for head in range(heads.queries):
        of_head = head * heads.keys // heads.queries
        scores = query[:, head].astype(np.float64) @ keys[:, of_head].T * _SCALE
        scores = np.where(rows.mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        found[:, head] = weights / weights.sum(1, keepdims=True) @ values[:, of_head]
    return found.reshape(len(queries), -1)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("heads", _HEADS, ids=str)
def test_each_query_mixes_the_values_that_it_sees(heads: Heads, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cache = random_cache(heads, dtype)
    shapes = [(1, 1), (3, 16), (8, 33), (40, 500), (1, 17)]
    seen = [random_rows(new, rows, seed) for seed, (new, rows) in enumerate(shapes)]
    queries = np.random.default_rng(9).normal(size=(53, heads.columns)).astype(np.float32)
    found = attend(queries, seen, heads, cache)
    first = 0
    for rows in seen:
        own = slice(first, first + len(rows.mask))
        expected = softmax_attention(queries[own], rows, heads, cache)
        assert np.abs(found[own] - expected).max() < 2e-5, f"{rows.mask.shape}"
        first = own.stop


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("heads", _HEADS, ids=str)
def test_a_query_comes_out_the_same_to_the_last_bit_in_any_call(
    heads: Heads, dtype: torch.dtype
) -> None:
    """Beside other queries and sequences, and with unseen rows in between."""
    torch.manual_seed(0)
    cache = random_cache(heads, dtype)
    together, other = random_rows(40, 300, 1), random_rows(7, 60, 2)
    queries = np.random.default_rng(9).normal(size=(47, heads.columns)).astype(np.float32)
    expected = attend(queries, [together, other], heads, cache)
    for query, width in zip(range(0, 36, 3), cycle((1, 2, 3, 4)), strict=False):
        some = slice(query, query + width)
        sees = together.mask[some].any(axis=0)
        alone = VisibleSlots(together.slots[sees], together.mask[some][:, sees])
        found = attend(queries[some], [alone], heads, cache)
        assert np.array_equal(found, expected[some]), f"{width} queries from {query} on"


def test_scores_may_be_large() -> None:
    torch.manual_seed(0)
    heads = Heads(1, 1, 16)
    cache = random_cache(heads, torch.float32)
    rows = random_rows(4, 40, 1)
    queries = np.full((4, heads.columns), 1e4, np.float32)
    found = attend(queries, [rows], heads, cache)
    assert np.abs(found - softmax_attention(queries, rows, heads, cache)).max() < 1e-3
