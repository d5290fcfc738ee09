"""Attention over paged rows in one pass, as a kernel of Triton.

A program computes a few tokens of one sequence for the query heads that share a key head. It walks
over the sequence's rows a block at a time, and keeps the largest score, the sum of the weights and
the weighted values, so that scores are never written to memory (online softmax: Milakov and
Gimelshein 2018; FlashAttention: Dao et al. 2022). Rows are found through a table of slots
(PagedAttention: Kwon et al. 2023). Whom a new token sees among the new ones says an ancestor mask
(SpecInfer: Miao et al. 2023).
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

__all__ = ["attend"]


@triton.jit  # type: ignore[untyped-decorator]
def attend(
    query: Any,  # [tokens, heads, size]
    keys: Any,  # [slots, kv heads, size]
    values: Any,  # [slots, kv heads, value size]
    key_scales: Any,  # [slots, kv heads]
    value_scales: Any,  # [slots, kv heads]
    sinks: Any,  # [heads]
    output: Any,  # [tokens, heads, value size]
    slots: Any,  # [rows of all sequences]
    first_seen: Any,  # [tokens]
    among: Any,  # [new * new, of all sequences]
    pieces: Any,  # [programs, 7]
    query_step: Any,
    output_step: Any,
    key_step: Any,
    value_step: Any,
    scale_step: Any,
    scaling: Any,
    softcap: Any,
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
    """One program for each piece and key head; a step is the numbers from one token to the next."""
    piece = pieces + tl.program_id(0) * 7
    kv_head = tl.program_id(1)
    first_token = tl.load(piece)  # in the packed row
    num_tokens = tl.load(piece + 1)
    first_node = tl.load(piece + 2)  # among the new tokens of the sequence
    num_new = tl.load(piece + 3)
    first_row = tl.load(piece + 4)  # in the table of slots
    num_rows = tl.load(piece + 5)
    first_among = tl.load(piece + 6)
    committed = num_rows - num_new

    queries = tl.arange(0, BLOCK_QUERIES)
    nodes = queries // HEADS_SHARED
    heads = kv_head * HEADS_SHARED + queries % HEADS_SHARED
    is_query = nodes < num_tokens
    tokens = (first_token + nodes).to(tl.int64)
    key_places = tl.arange(0, PADDED_SIZE)
    value_places = tl.arange(0, PADDED_VALUE_SIZE)
    asked = tl.load(
        query + tokens[:, None] * query_step + heads[:, None] * SIZE + key_places[None, :],
        mask=is_query[:, None] & (key_places < SIZE)[None, :],
        other=0.0,
    )  # [queries, size]
    seen_from = tl.load(first_seen + tokens, mask=is_query, other=0)

    if HAS_SINKS:
        largest = tl.load(sinks + heads, mask=is_query, other=0.0).to(tl.float32)
        total = tl.full([BLOCK_QUERIES], 1.0, tl.float32)
    else:
        largest = tl.full([BLOCK_QUERIES], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_QUERIES], tl.float32)
    mixed = tl.zeros([BLOCK_QUERIES, PADDED_VALUE_SIZE], tl.float32)

    # No token sees a row behind its own, so those behind the last token of the piece are left out.
    for start in range(0, committed + first_node + num_tokens, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        is_row = rows < num_rows
        slot = tl.load(slots + first_row + rows, mask=is_row, other=0).to(tl.int64)
        found = tl.load(
            keys + slot[None, :] * key_step + kv_head * SIZE + key_places[:, None],
            mask=is_row[None, :] & (key_places < SIZE)[:, None],
            other=0.0,
        )  # [size, rows]
        if HAS_SCALES:
            scales = tl.load(key_scales + slot * scale_step + kv_head, mask=is_row, other=0.0)
            found = found.to(tl.float32) * scales[None, :]
        scores = tl.dot(asked, found.to(asked.dtype), input_precision="ieee") * scaling
        if HAS_SOFTCAP:
            # The hyperbolic tangent.
            scores = softcap * (2 * tl.sigmoid(2 * scores / softcap) - 1)

        is_new = rows >= committed
        ancestors = tl.load(
            among
            + first_among
            + (first_node + nodes)[:, None] * num_new
            + (rows - committed)[None, :],
            mask=is_query[:, None] & (is_new & is_row)[None, :],
            other=0,
        )
        is_old = (rows[None, :] >= seen_from[:, None]) & (rows < committed)[None, :]
        sees = is_old | (ancestors != 0)
        scores = tl.where(sees, scores, float("-inf"))

        new_largest = tl.maximum(largest, tl.max(scores, 1))
        # Where nothing was seen so far the largest is minus infinity; less itself it is no number.
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        kept = tl.exp(largest - base)
        weights = tl.exp(scores - base[:, None])
        total = total * kept + tl.sum(weights, 1)
        given = tl.load(
            values + slot[:, None] * value_step + kv_head * VALUE_SIZE + value_places[None, :],
            mask=is_row[:, None] & (value_places < VALUE_SIZE)[None, :],
            other=0.0,
        )  # [rows, value size]
        if HAS_SCALES:
            scales = tl.load(value_scales + slot * scale_step + kv_head, mask=is_row, other=0.0)
            given = given.to(tl.float32) * scales[:, None]
        given = given.to(asked.dtype)
        mixed = mixed * kept[:, None] + tl.dot(
            weights.to(given.dtype), given, input_precision="ieee"
        )
        largest = new_largest

    total = tl.where(is_query, total, 1.0)
    tl.store(
        output
        + tokens[:, None] * output_step
        + heads[:, None] * VALUE_SIZE
        + value_places[None, :],
        (mixed / total[:, None]).to(output.dtype.element_ty),
        mask=is_query[:, None] & (value_places < VALUE_SIZE)[None, :],
    )
