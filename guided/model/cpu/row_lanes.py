"""Attention of few queries: lanes are rows of the cache for scores, a head's numbers for outputs.

Nothing is computed for lanes without a query, of which ``query_lanes`` would have most::

    scores[query, row]  = sum of  queries[query, d] * keys[d, row]       over d
    outputs[query, d]   = sum of  weights[query, row] * values[row, d]   over rows
    weights[query, row] = e ** (scores[query, row] - the query's maximum), 0 where it does not see

Every sum is taken in the order in which ``query_lanes`` takes it, so both come to the same bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir

from guided.model.cpu.addresses import floats
from guided.model.cpu.attention_parts import (
    FUSED,
    TILE_ROW,
    ask_for,
    clear,
    lane_pointer,
    leave_rows_out,
    query_place,
    spread,
    sums_at_once,
    weigh,
    whole,
)
from guided.model.cpu.instructions import best_instructions, register_width
from guided.model.cpu.kernel import emitted, exact_inlined, inlined
from guided.model.cpu.llvm import (
    FLOAT,
    FLOATS,
    INT32,
    INT64,
    LANES,
    LINE,
    for_each_count,
    loop,
    pointer,
    splat,
)

__all__ = ["FEW", "attend_few", "few_scratch_bytes"]

FEW: Final = 8
"""The most queries for which this takes less time."""
_ROWS: Final = 2 * LANES
"""Rows whose scores are computed at once."""
_TOGETHER: Final = 4
"""The most queries whose sums are in registers at once."""
_NUMBERS: Final = 4 * LANES
"""What a head is filled up to a multiple of, so that outputs are several registers at once."""


def few_scratch_bytes(size: int, rows: int) -> int:
    """Return the bytes that a thread needs for heads and rows of these sizes."""
    of_head, of_rows = -(-size // _NUMBERS) * _NUMBERS, -(-rows // _ROWS) * _ROWS
    columns = of_head * _ROWS
    return (TILE_ROW * LANES + columns + FEW * (2 * of_head + of_rows) + LANES) * 4


@exact_inlined
def attend_few(job: Any, group: Any, head: Any, scratch: Any) -> None:
    """Compute the outputs of a group of up to ``FEW`` queries for one key head.

    ``job`` and ``group`` are those of ``attention._attend_in_groups``.
    """
    rows, count, size = group[1], group[5], job[7]
    of_head, of_rows = -(-size // _NUMBERS) * _NUMBERS * 4, -(-rows // _ROWS) * _ROWS * 4
    tile = scratch
    columns = tile + TILE_ROW * LINE
    queries = columns + of_head * _ROWS
    outputs = queries + count * of_head
    totals = outputs + count * of_head
    weights = totals + LINE
    _read_queries(job, group, head, queries, of_head)
    clear(outputs, count * of_head // LINE)
    for first in range(0, rows, _ROWS):
        for half in range(0, _ROWS, LANES):
            ask_for(job, job[2], group, head, first + half + LANES)
            spread(job, job[2], group, head, first + half, tile)
            _transpose(tile, columns + half * 4, whole(size))
        for query in range(0, count, _TOGETHER):
            its_scores = weights + query * of_rows + first * 4
            its_queries, some = queries + query * of_head, min(_TOGETHER, count - query)
            _score(columns, its_queries, its_scores, size, of_head, of_rows, some)
    ask_for(job, job[3], group, head, 0)
    of_bits = whole(rows) // 8
    for query in range(count):
        its_weights = weights + query * of_rows
        leave_rows_out(its_weights, group[2] + query * of_bits, whole(rows) // LANES)
        weigh(its_weights, whole(rows))
    for query in range(0, count, _TOGETHER):
        some = min(_TOGETHER, count - query)
        _sum(weights + query * of_rows, rows, of_rows, totals + query * 4, some)
    clear(tile, TILE_ROW)
    for first in range(0, rows, LANES):
        ask_for(job, job[3], group, head, first + LANES)
        spread(job, job[3], group, head, first, tile)
        for query in range(0, count, _TOGETHER):
            its_weights = weights + query * of_rows + first * 4
            its_outputs, some = outputs + query * of_head, min(_TOGETHER, count - query)
            _mix(tile, its_weights, its_outputs, of_head, of_rows, some)
    _write_outputs(job, group, head, outputs, of_head, totals)


@inlined
def _read_queries(job: Any, group: Any, head: Any, queries: Any, of_head: Any) -> None:
    """Copy the queries of a group, times the scale."""
    scale = floats(job[12])[0]
    for number in range(group[5]):
        token, its_head = query_place(job, group, head, number)
        source = floats(job[0] + (token * job[8] + its_head * job[7]) * 4)
        target = floats(queries + number * of_head)
        for d in range(job[7]):
            target[d] = source[d] * scale


@exact_inlined
def _write_outputs(
    job: Any, group: Any, head: Any, outputs: Any, of_head: Any, totals: Any
) -> None:
    """Write the outputs, divided by the sums of their weights."""
    size, heads = job[7], job[5] * job[6]
    for number in range(group[5]):
        token, its_head = query_place(job, group, head, number)
        target = floats(job[1] + (token * heads + its_head) * size * 4)
        source = floats(outputs + number * of_head)
        factor = np.float32(1) / floats(totals)[number]
        for d in range(size):
            target[d] = source[d] * factor


@emitted
def _transpose(builder: Any, tile: Any, columns: Any, size: Any) -> None:
    """Write 16 rows of a tile as 16 lanes of each of ``size`` columns."""
    width = register_width(best_instructions())
    kind = ir.VectorType(FLOAT, width)

    def block(number: Any, _: list[Any]) -> list[Any]:
        d = builder.mul(number, INT64(width))
        for first in range(0, LANES, width):
            places = [builder.add(INT64((first + i) * TILE_ROW), d) for i in range(width)]
            rows = [builder.load(pointer(builder, tile, kind, place), align=4) for place in places]
            for i, column in enumerate(_transposed(builder, rows)):
                place = builder.mul(builder.add(d, INT64(i)), INT64(_ROWS))
                place = builder.add(place, INT64(first))
                builder.store(column, pointer(builder, columns, kind, place), align=4)
        return []

    loop(builder, builder.sdiv(size, INT64(width)), [], block)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose a square: within each 2 by 2 numbers, then within each 2 by 2 such squares, ...::

    a b  c d       a e  c g       a e  i m
    e f  g h  ──▶  b f  d h  ──▶  b f  j n
    i j  k l       i m  k o       c g  k o
    m n  o p       j n  l p       d h  l p
    """
    width, step = len(rows), 1
    places = range(width)
    while step < width:
        swapped = list(rows)
        for i in places:
            if i & step:
                continue
            pair = rows[i], rows[i + step]
            low = [width + j - step if j & step else j for j in places]
            high = [width + j if j & step else j + step for j in places]
            for target, order in ((i, low), (i + step, high)):
                mask = ir.Constant(ir.VectorType(INT32, width), order)
                swapped[target] = builder.shuffle_vector(*pair, mask)
        rows, step = swapped, 2 * step
    return rows


@emitted
def _score(
    builder: Any,
    columns: Any,
    queries: Any,
    scores: Any,
    size: Any,
    of_head: Any,
    of_rows: Any,
    count: Any,
) -> None:
    """Set ``scores[q, row] = sum of queries[q, d] * columns[d, row]`` for 32 rows, over ``size`` d.

    ``of_head`` and ``of_rows`` are the bytes from one query, and one query's scores, to the next.
    """
    nothing = ir.Constant(FLOATS, [0.0] * LANES)

    def score(number: int) -> None:
        at_once = _vectors_at_once(number, _ROWS // LANES)
        factors = _starts(builder, queries, of_head, number)
        targets = _starts(builder, scores, of_rows, number)
        for first in range(0, _ROWS, at_once * LANES):
            keys = builder.add(columns, INT64(first * 4))
            sums = [[nothing] * at_once for _ in factors]
            sums = _add_products(builder, sums, factors, keys, _ROWS, size)
            for target, its_sums in zip(targets, sums, strict=True):
                _store(builder, its_sums, builder.add(target, INT64(first * 4)))

    for_each_count(builder, count, _TOGETHER, score)


@emitted
def _mix(
    builder: Any, tile: Any, weights: Any, outputs: Any, of_head: Any, of_rows: Any, count: Any
) -> None:
    """Do ``outputs[q, d] += sum of weights[q, row] * tile[row, d]`` over the 16 rows of a tile.

    Bytes are as for ``_score``.
    """

    def mix(number: int) -> None:
        at_once = _vectors_at_once(number, _NUMBERS // LANES)
        factors = _starts(builder, weights, of_rows, number)
        targets = _starts(builder, outputs, of_head, number)

        def add_block(block: Any, _: list[Any]) -> list[Any]:
            first = builder.mul(block, INT64(at_once * LINE))
            places = [builder.add(target, first) for target in targets]
            sums = [_load(builder, place, at_once) for place in places]
            values = builder.add(tile, first)
            sums = _add_products(builder, sums, factors, values, TILE_ROW, INT64(LANES))
            for place, its_sums in zip(places, sums, strict=True):
                _store(builder, its_sums, place)
            return []

        loop(builder, builder.sdiv(of_head, INT64(at_once * LINE)), [], add_block)

    for_each_count(builder, count, _TOGETHER, mix)


@emitted
def _sum(builder: Any, weights: Any, rows: Any, of_rows: Any, totals: Any, count: Any) -> None:
    """Add up each query's weights, in the order of the rows."""

    def add_up(number: int) -> None:
        starts = _starts(builder, weights, of_rows, number)

        def add(row: Any, sums: list[Any]) -> list[Any]:
            return [
                builder.fadd(total, builder.load(pointer(builder, start, FLOAT, row)))
                for total, start in zip(sums, starts, strict=True)
            ]

        sums = loop(builder, rows, [ir.Constant(FLOAT, 0.0)] * number, add)
        for query, total in enumerate(sums):
            builder.store(total, pointer(builder, totals, FLOAT, INT64(query)))

    for_each_count(builder, count, _TOGETHER, add_up)


def _vectors_at_once(queries: int, most: int) -> int:
    """Return how many registers of sums each query has at once; it divides ``most``, 2 or 4."""
    return min(most, max(1, sums_at_once() // queries))


def _add_products(
    builder: Any,
    sums: list[list[Any]],
    factors: list[Any],
    vectors: Any,
    step: int,
    count: Any,
) -> list[list[Any]]:
    """Return ``sums[q][v] + factors[q][k] * vectors[k * step + 16 * v]``, over ``count`` k in turn.

    ``factors`` and ``vectors`` are addresses.
    """
    at_once = len(sums[0])

    def body(k: Any, totals: list[Any]) -> list[Any]:
        numbers = _load(builder, _at(builder, vectors, builder.mul(k, INT64(step))), at_once)
        grown = []
        for query, start in enumerate(factors):
            factor = splat(builder, builder.load(pointer(builder, start, FLOAT, k)))
            for v, number in enumerate(numbers):
                product = builder.fmul(factor, number, flags=FUSED)
                grown.append(builder.fadd(product, totals[query * at_once + v], flags=FUSED))
        return grown

    found = loop(builder, count, [total for its_sums in sums for total in its_sums], body)
    return [found[first : first + at_once] for first in range(0, len(found), at_once)]


def _starts(builder: Any, address: Any, nbytes: Any, count: int) -> list[Any]:
    """Return the addresses of some queries' numbers, which are ``nbytes`` apart."""
    return [builder.add(address, builder.mul(nbytes, INT64(query))) for query in range(count)]


def _at(builder: Any, address: Any, place: Any) -> Any:
    return builder.add(address, builder.mul(place, INT64(4)))


def _load(builder: Any, address: Any, count: int) -> list[Any]:
    """Load ``count`` times 16 numbers."""
    return [builder.load(lane_pointer(builder, address, INT64(v)), align=4) for v in range(count)]


def _store(builder: Any, vectors: list[Any], address: Any) -> None:
    for v, vector in enumerate(vectors):
        builder.store(vector, lane_pointer(builder, address, INT64(v)), align=4)
