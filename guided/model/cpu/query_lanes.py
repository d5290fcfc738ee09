"""Attention of many queries: their lanes are the lanes of registers, 16 at a time.

Of the last 16 of a group half is left out if it is enough. Scores and outputs are the same loop,
with up to 16 registers of sums at a time, and no sum crosses the lanes of a register::

    scores[row, lane]  = sum of  keys[row, d] * queries[d, lane]     over d
    outputs[d, lane]   = sum of  values[row, d] * weights[row, lane] over rows
    weights[row, lane] = e ** (scores[row, lane] - the lane's maximum), 0 where it does not see
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from guided.model.cpu.addresses import floats
from guided.model.cpu.attention_parts import (
    FUSED,
    TILE_ROW,
    ask_for,
    clear,
    lane_pointer,
    leave_lanes_out,
    query_place,
    spread,
    sums_at_once,
    weigh,
    whole,
)
from guided.model.cpu.kernel import emitted, exact_inlined, inlined
from guided.model.cpu.llvm import FLOAT, FLOATS, INT64, LANES, LINE, loop, pointer, splat

__all__ = ["attend_many", "many_scratch_bytes"]


def many_scratch_bytes(size: int, rows: int, parts: int) -> int:
    """Return the bytes that a thread needs for heads, rows and groups of these sizes."""
    whole_size, whole_rows = (-(-count // LANES) * LANES for count in (size, rows))
    return (TILE_ROW + parts * (2 * whole_size + 1 + whole_rows)) * LINE


@exact_inlined
def attend_many(job: Any, group: Any, head: Any, tile: Any) -> None:
    """Compute the outputs of a group of queries for one key head; ``tile`` is scratch.

    ``job`` and ``group`` are those of ``attention._attend_in_groups``.
    """
    size = job[7]
    of_part = whole(size) * LINE
    rows, parts = group[1], -(-group[5] // LANES)
    queries = tile + TILE_ROW * LINE
    outputs = queries + parts * of_part
    totals = outputs + parts * of_part
    weights, of_weights = totals + parts * LINE, whole(rows) * LINE
    clear(tile, TILE_ROW)
    clear(queries, 2 * parts * whole(size))
    clear(weights, parts * whole(rows))  # lanes without a query get no score
    _read_queries(job, group, head, queries)
    for first in range(0, rows, LANES):
        ask_for(job, job[2], group, head, first + LANES)
        spread(job, job[2], group, head, first, tile)
        for part in range(parts):
            scores = weights + part * of_weights + first * LINE
            _score(tile, queries + part * of_part, scores, size, group[5] - part * LANES)
    ask_for(job, job[3], group, head, 0)
    for part in range(parts):
        its_weights = weights + part * of_weights
        leave_lanes_out(its_weights, group[2] + part * rows * 2, rows)
        weigh(its_weights, rows * LANES)
        clear(its_weights + rows * LINE, whole(rows) - rows)
        _sum(its_weights, rows, totals + part * LINE)
    clear(tile, TILE_ROW)
    for first in range(0, rows, LANES):
        ask_for(job, job[3], group, head, first + LANES)
        spread(job, job[3], group, head, first, tile)
        for part in range(parts):
            its_weights = weights + part * of_weights + first * LINE
            for d in range(0, size, LANES):
                target = outputs + part * of_part + d * LINE
                _mix(tile + d * 4, its_weights, target, group[5] - part * LANES)
    _write_outputs(job, group, head, outputs, totals)


@inlined
def _read_queries(job: Any, group: Any, head: Any, queries: Any) -> None:
    """Transpose the queries of a group, times the scale."""
    size, scale = job[7], floats(job[12])[0]
    for number in range(group[5]):
        token, its_head = query_place(job, group, head, number)
        source = floats(job[0] + (token * job[8] + its_head * size) * 4)
        part, lane = number // LANES, number % LANES
        target = floats(queries + part * whole(size) * LINE + lane * 4)
        for d in range(size):
            target[d * LANES] = source[d] * scale


@exact_inlined
def _write_outputs(job: Any, group: Any, head: Any, outputs: Any, totals: Any) -> None:
    """Transpose the outputs of the queries back, divided by the sums of their weights."""
    size, heads = job[7], job[5] * job[6]
    for number in range(group[5]):
        token, its_head = query_place(job, group, head, number)
        target = floats(job[1] + (token * heads + its_head) * size * 4)
        part, lane = number // LANES, number % LANES
        source = floats(outputs + part * whole(size) * LINE + lane * 4)
        factor = np.float32(1) / floats(totals)[number]
        for d in range(size):
            target[d] = source[d * LANES] * factor


@emitted
def _score(builder: Any, tile: Any, queries: Any, scores: Any, size: Any, count: Any) -> None:
    """Set ``scores[i] = sum of tile[i, k] * queries[k]`` for 16 rows of a tile, over ``size`` k.

    All but ``size`` and ``count`` are addresses. With up to eight queries (``count``) only the
    first half of the lanes of each score is written.
    """

    def score(lanes: int) -> None:
        nothing = ir.Constant(ir.VectorType(FLOAT, lanes), [0.0] * lanes)
        sums = _add_products(builder, [nothing] * LANES, tile, queries, size, TILE_ROW, 1)
        for i, total in enumerate(sums):
            builder.store(total, lane_pointer(builder, scores, INT64(i), lanes), align=LINE)

    _in_lanes(builder, count, score)


@emitted
def _mix(builder: Any, tile: Any, weights: Any, outputs: Any, count: Any) -> None:
    """Do ``outputs[i] += sum of tile[k, i] * weights[k]`` for 16 i and the 16 rows of a tile.

    ``count`` and addresses are as for ``_score``.
    """

    def mix(lanes: int) -> None:
        targets = [lane_pointer(builder, outputs, INT64(i), lanes) for i in range(LANES)]
        sums = [builder.load(target, align=LINE) for target in targets]
        sums = _add_products(builder, sums, tile, weights, INT64(LANES), 1, TILE_ROW)
        for target, total in zip(targets, sums, strict=True):
            builder.store(total, target, align=LINE)

    _in_lanes(builder, count, mix)


def _in_lanes(builder: Any, count: Any, emit: Callable[[int], None]) -> None:
    """Emit for all lanes and for the first half, which runs if it holds all queries."""
    half = LANES // 2
    with builder.if_else(builder.icmp_signed("<=", count, INT64(half))) as (few, many):
        with few:
            emit(half)
        with many:
            emit(LANES)


def _add_products(
    builder: Any, sums: list[Any], tile: Any, lanes: Any, count: Any, step: int, next_step: int
) -> list[Any]:
    """Return ``sums[i] + tile[i * step + k * next_step] * lanes[k]``, over ``count`` k in turn."""
    width = sums[0].type.count
    at_once = sums_at_once() * LANES // width
    if len(sums) > at_once:
        rest = builder.add(tile, INT64(at_once * step * 4))
        return [
            *_add_products(builder, sums[:at_once], tile, lanes, count, step, next_step),
            *_add_products(builder, sums[at_once:], rest, lanes, count, step, next_step),
        ]

    def body(k: Any, totals: list[Any]) -> list[Any]:
        numbers = builder.load(lane_pointer(builder, lanes, k, width), align=LINE)
        start = builder.mul(k, INT64(next_step))
        grown = []
        for i, total in enumerate(totals):
            place = builder.add(start, INT64(i * step))
            factor = splat(builder, builder.load(pointer(builder, tile, FLOAT, place)), width)
            product = builder.fmul(factor, numbers, flags=FUSED)
            grown.append(builder.fadd(product, total, flags=FUSED))
        return grown

    return loop(builder, count, sums, body)


@emitted
def _sum(builder: Any, weights: Any, rows: Any, totals: Any) -> None:
    """Add up each lane's weights, in the order of the rows."""

    def body(k: Any, sums: list[Any]) -> list[Any]:
        return [builder.fadd(sums[0], builder.load(lane_pointer(builder, weights, k), align=LINE))]

    [total] = loop(builder, rows, [ir.Constant(FLOATS, [0.0] * LANES)], body)
    builder.store(total, pointer(builder, totals, FLOATS), align=LINE)
