"""Attention of one model call in one group of layers, by a kernel of ours for Triton.

It reads keys and values in place in the cache: nothing is gathered or padded. A program of the
kernel computes one *piece* for one key head::

    query    tokens of a piece × query heads that share the key head     [queries, size]
    slots    ──▶ keys, values of one block of rows after the other       [rows, size]
    scores   queries × rows, then for each query only
             the largest score, the sum of the weights, the weighted values

so scores are never written to memory (online softmax: Milakov and Gimelshein 2018; FlashAttention:
Dao et al. 2022). Rows are found through a table of slots (PagedAttention: Kwon et al. 2023). An
ancestor mask says which of the new tokens a new token sees (SpecInfer: Miao et al. 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from guided.kv.paged_storage import LayerSlots
from guided.model.torch_attention import ScoreOptions
from guided.model.visible import VisibleSlots

__all__ = ["PIECE", "SeenTables", "TritonAttention", "attend", "make_seen_tables", "pieces_of"]

PIECE = 7
"""Numbers that describe what a program computes."""
_MOST_QUERIES = 64
"""The most query rows of a program; a wide matrix unit needs at least 16."""
_FEWEST_QUERIES = 16
_MOST_ROWS = 64
_TILE_BYTES = 1 << 14
"""Bytes of one head's keys that a program holds at a time; several have to fit a processor."""


class SeenTables(NamedTuple):
    """Who sees what, for sequences in packed order: arrays, or the same on a device."""

    slots: NDArray[np.int32] | torch.Tensor
    """Those of all sequences one after the other, ``[rows]``."""
    first_seen: NDArray[np.int32] | torch.Tensor
    """The first row before its tree that a new token sees, ``[tokens]``."""
    among: NDArray[np.int8] | torch.Tensor
    """Which nodes of its tree it sees, for all sequences, ``[new * nodes of the tree]``."""


def make_seen_tables(visible: Sequence[VisibleSlots]) -> SeenTables:
    """Make the tables of a model call.

    Raises ``ValueError`` unless a token sees a run of its sequence's earlier rows up to the last of
    them, as with a sliding window.
    """
    among = [rows.mask[:, len(rows.slots) - _tree(rows) :].reshape(-1) for rows in visible]
    return SeenTables(
        np.concatenate([rows.slots for rows in visible]).astype(np.int32),
        np.concatenate([_first_seen(rows) for rows in visible]).astype(np.int32),
        np.concatenate(among).view(np.int8),
    )


def pieces_of(visible: Sequence[VisibleSlots], tokens: int) -> NDArray[np.int32]:
    """Return each program's work, ``[programs, PIECE]``: up to ``tokens`` of a sequence."""
    pieces = []
    token = row = among = 0
    for rows in visible:
        new, count = rows.mask.shape
        tree, earlier = _tree(rows), rows.num_earlier
        # Nodes count from the first of the tree, some of which earlier calls computed.
        start = among - earlier * tree
        for node in range(0, new, tokens):
            own = min(tokens, new - node)
            pieces.append((token + node, own, earlier + node, tree, row, count, start))
        token, row, among = token + new, row + count, among + new * tree
    return np.array(pieces, np.int32)


class TritonAttention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(self, visible: Sequence[VisibleSlots], *, device: torch.device) -> None:
        self._visible = visible
        self._device = device
        self._most_new = max(len(rows.mask) for rows in visible)
        tables = make_seen_tables(visible)
        self._tables = SeenTables(*[torch.from_numpy(table).to(device) for table in tables])
        self._pieces: dict[int, torch.Tensor] = {}

    def attend(
        self,
        query: torch.Tensor,
        layer: LayerSlots,
        scores: ScoreOptions,
    ) -> torch.Tensor:
        """Map ``[packed tokens, heads, size]`` to ``[packed tokens, heads, value size]``."""
        shared = query.shape[1] // layer.values.numbers.shape[1]
        wanted = triton.next_power_of_2(shared * self._most_new)
        tokens = max(_least_queries(shared), min(_MOST_QUERIES, wanted)) // shared
        if tokens not in self._pieces:
            pieces = torch.from_numpy(pieces_of(self._visible, tokens))
            self._pieces[tokens] = pieces.to(self._device)
        return attend(query, layer, scores, self._tables, self._pieces[tokens], tokens)


def attend(
    query: torch.Tensor,
    layer: LayerSlots,
    scores: ScoreOptions,
    tables: SeenTables,
    pieces: torch.Tensor,
    tokens: int,
) -> torch.Tensor:
    """Attend by pieces of at most ``tokens`` tokens, ``[programs, PIECE]`` on the device.

    Maps ``[packed tokens, heads, size]`` to ``[packed tokens, heads, value size]``; tokens that are
    in no piece are not written.
    """
    scaling, softcap, sinks = scores
    keys, values = layer.keys, layer.values
    count, heads, size = query.shape
    kv_heads, value_size = values.numbers.shape[1:]
    shared = heads // kv_heads
    padded_size = max(16, triton.next_power_of_2(size))
    row_bytes = padded_size * query.element_size()
    query = query.contiguous()
    output = query.new_empty(count, heads, value_size)
    # What a kernel is compiled without is never read; any tensor stands in for it.
    unread = output
    # Triton computes on the current device, wherever the numbers are.
    with torch.cuda.device(query.get_device()):
        _attend[(len(pieces), kv_heads)](
            query,
            keys.numbers,
            values.numbers,
            unread if keys.scales is None else keys.scales,
            unread if values.scales is None else values.scales,
            unread if sinks is None else sinks,
            output,
            *tables,
            pieces,
            query.stride(0),
            output.stride(0),
            keys.numbers.stride(0),
            values.numbers.stride(0),
            kv_heads,
            size**-0.5 if scaling is None else scaling,
            1.0 if softcap is None else softcap,
            HEADS_SHARED=shared,
            SIZE=size,
            VALUE_SIZE=value_size,
            PADDED_SIZE=padded_size,
            PADDED_VALUE_SIZE=max(16, triton.next_power_of_2(value_size)),
            BLOCK_QUERIES=max(_least_queries(shared), triton.next_power_of_2(shared * tokens)),
            BLOCK_ROWS=max(16, min(_MOST_ROWS, _TILE_BYTES // row_bytes)),
            HAS_SCALES=keys.scales is not None,
            HAS_SOFTCAP=softcap is not None,
            HAS_SINKS=sinks is not None,
        )
    return output


def _least_queries(shared: int) -> int:
    """Return the query rows of the smallest program, if ``shared`` heads share a key head."""
    return max(_FEWEST_QUERIES, int(triton.next_power_of_2(shared)))


def _tree(rows: VisibleSlots) -> int:
    """Return how many of the last rows the ancestor mask covers."""
    return rows.num_earlier + len(rows.mask)


def _first_seen(rows: VisibleSlots) -> NDArray[np.int64]:
    """Return the first row before its tree that each new token sees, ``[new]``."""
    before = len(rows.slots) - _tree(rows)
    old = rows.mask[:, :before]
    first: NDArray[np.int64] = before - old.sum(axis=1)
    if not np.array_equal(old, np.arange(before) >= first[:, None]):
        raise ValueError("a token does not see all rows from its first one to its tree")
    return first


@triton.jit  # type: ignore[untyped-decorator]
def _attend(
    query: tl.tensor,  # [tokens, heads, size]
    keys: tl.tensor,  # [slots, kv heads, size]
    values: tl.tensor,  # [slots, kv heads, value size]
    key_scales: tl.tensor,  # [slots, kv heads]
    value_scales: tl.tensor,  # [slots, kv heads]
    sinks: tl.tensor,  # [heads]
    output: tl.tensor,  # [tokens, heads, value size]
    slots: tl.tensor,  # [rows of all sequences]
    first_seen: tl.tensor,  # [tokens]
    among: tl.tensor,  # [new * nodes of the tree, of all sequences]
    pieces: tl.tensor,  # [programs, 7]
    query_step: tl.tensor,
    output_step: tl.tensor,
    key_step: tl.tensor,
    value_step: tl.tensor,
    scale_step: tl.tensor,
    scaling: tl.tensor,
    softcap: tl.tensor,
    HEADS_SHARED: tl.constexpr,  # noqa: N803
    SIZE: tl.constexpr,  # noqa: N803
    VALUE_SIZE: tl.constexpr,  # noqa: N803
    PADDED_SIZE: tl.constexpr,  # noqa: N803
    PADDED_VALUE_SIZE: tl.constexpr,  # noqa: N803
    BLOCK_QUERIES: tl.constexpr,  # noqa: N803
    BLOCK_ROWS: tl.constexpr,  # noqa: N803
    HAS_SCALES: tl.constexpr,  # noqa: N803
    HAS_SOFTCAP: tl.constexpr,  # noqa: N803
    HAS_SINKS: tl.constexpr,  # noqa: N803
) -> None:
    """Run one program per piece and key head; a step is the distance from token to token."""
    piece = pieces + tl.program_id(0) * 7
    kv_head = tl.program_id(1)
    num_tokens, first_node, num_new = tl.load(piece + 1), tl.load(piece + 2), tl.load(piece + 3)
    first_row, num_rows = tl.load(piece + 4), tl.load(piece + 5)
    queries = tl.arange(0, BLOCK_QUERIES)
    nodes = queries // HEADS_SHARED
    heads = kv_head * HEADS_SHARED + queries % HEADS_SHARED
    is_query = nodes < num_tokens
    tokens = (tl.load(piece) + nodes).to(tl.int64)
    query_rows = _read(query, tokens, query_step, heads, is_query, SIZE, PADDED_SIZE)
    seen_from = tl.load(first_seen + tokens, mask=is_query, other=0)
    mixed = tl.zeros([BLOCK_QUERIES, PADDED_VALUE_SIZE], tl.float32)
    largest = tl.full([BLOCK_QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_QUERIES], tl.float32)
    if HAS_SINKS:  # a row that every query sees, without a value
        largest = tl.load(sinks + heads, mask=is_query, other=0.0).to(tl.float32)
        total += 1.0

    # No token sees a row after its own, so those after the last token of the piece are left out.
    for start in range(0, num_rows - num_new + first_node + num_tokens, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        is_row = rows < num_rows
        slot = tl.load(slots + first_row + rows, mask=is_row, other=0).to(tl.int64)
        found = _read(keys, slot, key_step, kv_head, is_row, SIZE, PADDED_SIZE)
        if HAS_SCALES:
            found = _apply_scales(found, key_scales + slot * scale_step + kv_head, is_row)
        scores = (
            tl.dot(query_rows, tl.trans(found.to(query_rows.dtype)), input_precision="ieee")
            * scaling
        )
        if HAS_SOFTCAP:  # the hyperbolic tangent
            scores = softcap * (2 * tl.sigmoid(2 * scores / softcap) - 1)
        of_new = among + tl.load(piece + 6) + (first_node + nodes) * num_new
        sees = _sees(of_new, seen_from, rows, num_rows - num_new, num_rows, is_query)
        scores = tl.where(sees, scores, float("-inf"))

        weights, kept, largest, total = _weigh(scores, largest, total)
        given = _read(values, slot, value_step, kv_head, is_row, VALUE_SIZE, PADDED_VALUE_SIZE)
        if HAS_SCALES:
            given = _apply_scales(given, value_scales + slot * scale_step + kv_head, is_row)
        more = tl.dot(
            weights.to(query_rows.dtype), given.to(query_rows.dtype), input_precision="ieee"
        )
        mixed = mixed * kept[:, None] + more

    result = (mixed / tl.where(is_query, total, 1.0)[:, None]).to(output.dtype.element_ty)
    places = tl.arange(0, PADDED_VALUE_SIZE)[None, :]
    targets = output + (tokens * output_step + heads * VALUE_SIZE)[:, None] + places
    tl.store(targets, result, mask=is_query[:, None] & (places < VALUE_SIZE))


@triton.jit  # type: ignore[untyped-decorator]
def _read(
    numbers: tl.tensor,
    tokens: tl.tensor,
    step: tl.tensor,
    heads: tl.tensor,
    is_token: tl.tensor,
    SIZE: tl.constexpr,  # noqa: N803
    PADDED_SIZE: tl.constexpr,  # noqa: N803
) -> tl.tensor:
    """Read one head of each token or slot, zeros after the last, ``[tokens, size]``."""
    places = tl.arange(0, PADDED_SIZE)
    starts = tokens * step + heads * SIZE
    return tl.load(
        numbers + starts[:, None] + places[None, :],
        mask=is_token[:, None] & (places < SIZE)[None, :],
        other=0.0,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _apply_scales(numbers: tl.tensor, scales: tl.tensor, is_row: tl.tensor) -> tl.tensor:
    """Return numbers of int8 times the scale of their slot and head, float32."""
    return numbers.to(tl.float32) * tl.load(scales, mask=is_row, other=0.0)[:, None]


@triton.jit  # type: ignore[untyped-decorator]
def _sees(
    of_new: tl.tensor,
    seen_from: tl.tensor,
    rows: tl.tensor,
    committed: tl.tensor,
    num_rows: tl.tensor,
    is_query: tl.tensor,
) -> tl.tensor:
    """Return which queries see which rows: earlier ones from a first on, new ones by the mask."""
    is_new = (rows >= committed) & (rows < num_rows)
    ancestors = tl.load(
        of_new[:, None] + (rows - committed)[None, :],
        mask=is_query[:, None] & is_new[None, :],
        other=0,
    )
    is_old = (rows[None, :] >= seen_from[:, None]) & (rows < committed)[None, :]
    return is_old | (ancestors != 0)


@triton.jit  # type: ignore[untyped-decorator]
def _weigh(
    scores: tl.tensor, largest: tl.tensor, total: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Return the weights of scores, ``[queries, rows]``, and what they change for each query.

    That is the factor of all earlier weights, the largest score, and the sum of the weights.
    """
    new_largest = tl.maximum(largest, tl.max(scores, 1))
    # If nothing was seen so far the largest is minus infinity; minus itself it would be NaN.
    base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
    kept = tl.exp(largest - base)
    weights = tl.exp(scores - base[:, None])
    return weights, kept, new_largest, total * kept + tl.sum(weights, 1)
