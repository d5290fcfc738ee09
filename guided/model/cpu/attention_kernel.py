"""Attention of queries over rows of the cache, read in place; all sums are float32.

The queries that share a key head are taken 16 at a time, as the *lanes* of registers; if they
are eight or fewer, half of the lanes is left out. So scores and outputs are the same loop, with up
to 16 registers of sums at a time, and no sum crosses the lanes of a register::

    scores[row, lane]  = sum of  keys[row, d] * queries[d, lane]     over d
    outputs[d, lane]   = sum of  values[row, d] * weights[row, lane] over rows
    weights[row, lane] = e ** (scores[row, lane] - the lane's maximum), 0 where it does not see

A sum is taken in the order of the rows, one after the other, and a row that a query does not see
adds 0 to it. So the output of a query is the same to the last bit, whatever other queries, and
whatever rows that it does not see, stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import floats, halves, integers, take_next
from guided.model.cpu.instructions import InstructionSet, best_instructions
from guided.model.cpu.kernel import exact_task, inlined, instruction
from guided.model.cpu.llvm import (
    FLOAT,
    FLOATS,
    INT64,
    LANES,
    LINE,
    loop,
    pointer,
    prefetch,
    splat,
)
from guided.model.cpu.numbers import exponential, widen

__all__ = [
    "GROUP_NUMBERS",
    "JOB_NUMBERS",
    "WIDEST_HEAD",
    "attend_in_groups",
    "scratch_bytes",
]

GROUP_NUMBERS = 6
"""Integers that describe a group, see ``attend_in_groups``."""
JOB_NUMBERS = 16
WIDEST_HEAD = 256
"""The most numbers in a head."""
_ROW = WIDEST_HEAD + LANES
"""Numbers from one row of a tile to the next: fixed, so that instructions contain it, and not a
power of two, so that rows do not evict each other from the cache."""
_FUSED = ("contract",)
_FEWER_SUMS = {InstructionSet.AVX_VNNI: 4, InstructionSet.AVX2: 4, InstructionSet.PORTABLE: 2}
"""Registers of sums at once if 16 are too many: each takes two or four of the processor's."""


def scratch_bytes(size: int, rows: int, parts: int) -> int:
    """Return the bytes that a thread needs for heads, rows and groups of these sizes."""
    whole_size, whole_rows = (-(-count // LANES) * LANES for count in (size, rows))
    return (_ROW + parts * (2 * whole_size + 1 + whole_rows)) * LINE


@inlined
def _whole(count: Any) -> Any:
    """Round ``count`` up to whole registers of 16."""
    return -(-count // LANES) * LANES


@exact_task
def attend_in_groups(job: Any) -> None:
    """Compute pieces: a piece is one group of queries for one key head.

    ``job``: addresses of queries, outputs, keys and values; bytes of a number in the latter, 2 for
    bf16; query heads for each key head, key heads, numbers in a head, numbers in a row of queries;
    address of the groups, their number, the counter, address of the scale; address of scratch, its
    bytes for a thread, and the counter of threads.

    A group has some queries of a sequence, in parts of 16: address of the slots of its rows,
    their number, address of the bits of the lanes that see each row, one part after the other;
    first token of the sequence, first query within that, and the number of queries.
    """
    size, kv_heads = job[7], job[6]
    of_part = _whole(size) * LINE
    tile = job[13] + take_next(job[15]) * job[14]  # of this thread alone
    while True:
        piece = take_next(job[11])
        if piece >= job[10] * kv_heads:
            return
        group, head = integers(job[9] + piece // kv_heads * GROUP_NUMBERS * 8), piece % kv_heads
        rows, parts = group[1], -(-group[5] // LANES)
        queries = tile + _ROW * LINE
        outputs = queries + parts * of_part
        totals = outputs + parts * of_part
        weights, of_weights = totals + parts * LINE, _whole(rows) * LINE
        _clear(tile, _ROW)
        _clear(queries, 2 * parts * _whole(size))
        _clear(weights, parts * _whole(rows))  # lanes without a query get no score
        _read_queries(job, group, head, queries)
        for first in range(0, rows, LANES):
            _ask_for(job, job[2], group, head, first + LANES)
            _spread(job, job[2], group, head, first, tile)
            for part in range(parts):
                scores = weights + part * of_weights + first * LINE
                _score(tile, queries + part * of_part, scores, size, group[5] - part * LANES)
        _ask_for(job, job[3], group, head, 0)
        for part in range(parts):
            its_weights = weights + part * of_weights
            _weigh(its_weights, group[2] + part * rows * 2, rows)
            _clear(its_weights + rows * LINE, _whole(rows) - rows)
            _sum(its_weights, rows, totals + part * LINE)
        _clear(tile, _ROW)
        for first in range(0, rows, LANES):
            _ask_for(job, job[3], group, head, first + LANES)
            _spread(job, job[3], group, head, first, tile)
            for part in range(parts):
                its_weights = weights + part * of_weights + first * LINE
                for d in range(0, size, LANES):
                    target = outputs + part * of_part + d * LINE
                    _mix(tile + d * 4, its_weights, target, group[5] - part * LANES)
        _write_outputs(job, group, head, outputs, totals)


@inlined
def _read_queries(job: Any, group: Any, head: Any, queries: Any) -> None:
    """Transpose the queries of a group, times the scale."""
    shared, size, scale = job[5], job[7], floats(job[12])[0]
    for number in range(group[5]):
        place = group[4] + number
        token, its_head = group[3] + place // shared, head * shared + place % shared
        source = floats(job[0] + (token * job[8] + its_head * size) * 4)
        part, lane = number // LANES, number % LANES
        target = floats(queries + part * _whole(size) * LINE + lane * 4)
        for d in range(size):
            target[d * LANES] = source[d] * scale


@inlined
def _write_outputs(job: Any, group: Any, head: Any, outputs: Any, totals: Any) -> None:
    """Transpose the outputs of the queries back, divided by the sums of their weights."""
    shared, size, heads = job[5], job[7], job[5] * job[6]
    for number in range(group[5]):
        place = group[4] + number
        token, its_head = group[3] + place // shared, head * shared + place % shared
        target = floats(job[1] + (token * heads + its_head) * size * 4)
        part, lane = number // LANES, number % LANES
        source = floats(outputs + part * _whole(size) * LINE + lane * 4)
        total = floats(totals)[number]
        for d in range(size):
            target[d] = source[d * LANES] / total


@inlined
def _weigh(scores: Any, seen: Any, rows: Any) -> None:
    """Turn scores into weights."""
    _leave_out(scores, seen, rows)
    numbers = floats(scores)
    for place in range(rows * LANES):
        numbers[place] = exponential(numbers[place])


@inlined
def _spread(job: Any, cache: Any, group: Any, head: Any, first: Any, tile: Any) -> None:
    """Read up to 16 rows of one head from the cache as float32."""
    slots, size, kv_heads = integers(group[0]), job[7], job[6]
    for row in range(first, min(first + LANES, group[1])):
        source = cache + (slots[row] * kv_heads + head) * size * job[4]
        target = floats(tile + (row - first) * _ROW * 4)
        if job[4] == 2:
            bits = halves(source)
            for d in range(size):
                target[d] = widen(bits[d])
        else:
            numbers = floats(source)
            for d in range(size):
                target[d] = numbers[d]


@inlined
def _ask_for(job: Any, cache: Any, group: Any, head: Any, first: Any) -> None:
    """Prefetch what ``_spread`` reads next; the processor cannot foresee its many places."""
    slots, kv_heads, nbytes = integers(group[0]), job[6], job[7] * job[4]
    for row in range(first, min(first + LANES, group[1])):
        start = cache + (slots[row] * kv_heads + head) * nbytes
        for line in range(0, nbytes, LINE):
            _ask(start + line)


@inlined
def _clear(address: Any, lines: Any) -> None:
    target = floats(address)
    for place in range(lines * LANES):
        target[place] = np.float32(0)


@instruction
def _ask(_: Any, address: Any) -> Any:
    """Prefetch the cache line of an address."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        prefetch(builder, args[0])
        return context.get_dummy_value()

    return types.void(address), emit


@instruction
def _score(_: Any, tile: Any, queries: Any, scores: Any, size: Any, count: Any) -> Any:
    """Set ``scores[i] = sum of tile[i, k] * queries[k]`` for 16 rows of a tile, over ``size`` k.

    All but ``size`` and ``count`` are addresses. With up to eight queries (``count``) only the
    first half of the lanes of each score is written.
    """

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        its_tile, its_queries, its_scores, its_size, its_count = args

        def score(lanes: int) -> None:
            nothing = ir.Constant(ir.VectorType(FLOAT, lanes), [0.0] * lanes)
            sums = _add_products(
                builder, [nothing] * LANES, its_tile, its_queries, its_size, _ROW, 1
            )
            for i, total in enumerate(sums):
                builder.store(total, _lanes(builder, its_scores, INT64(i), lanes), align=LINE)

        _in_lanes(builder, its_count, score)
        return context.get_dummy_value()

    return types.void(tile, queries, scores, size, count), emit


@instruction
def _mix(_: Any, tile: Any, weights: Any, outputs: Any, count: Any) -> Any:
    """Do ``outputs[i] += sum of tile[k, i] * weights[k]`` for 16 i and the 16 rows of a tile.

    ``count`` and addresses are as for ``_score``.
    """

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        its_tile, its_weights, its_outputs, its_count = args

        def mix(lanes: int) -> None:
            targets = [_lanes(builder, its_outputs, INT64(i), lanes) for i in range(LANES)]
            sums = [builder.load(target, align=LINE) for target in targets]
            sums = _add_products(builder, sums, its_tile, its_weights, INT64(LANES), 1, _ROW)
            for target, total in zip(targets, sums, strict=True):
                builder.store(total, target, align=LINE)

        _in_lanes(builder, its_count, mix)
        return context.get_dummy_value()

    return types.void(tile, weights, outputs, count), emit


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
    at_once = _FEWER_SUMS.get(best_instructions(), LANES) * LANES // width
    if len(sums) > at_once:
        rest = builder.add(tile, INT64(at_once * step * 4))
        return [
            *_add_products(builder, sums[:at_once], tile, lanes, count, step, next_step),
            *_add_products(builder, sums[at_once:], rest, lanes, count, step, next_step),
        ]

    def body(k: Any, totals: list[Any]) -> list[Any]:
        numbers = builder.load(_lanes(builder, lanes, k, width), align=LINE)
        start = builder.mul(k, INT64(next_step))
        grown = []
        for i, total in enumerate(totals):
            place = builder.add(start, INT64(i * step))
            factor = splat(builder, builder.load(pointer(builder, tile, FLOAT, place)), width)
            product = builder.fmul(factor, numbers, flags=_FUSED)
            grown.append(builder.fadd(product, total, flags=_FUSED))
        return grown

    return loop(builder, count, sums, body)


def _lanes(builder: Any, address: Any, place: Any, count: int = LANES) -> Any:
    """Return a pointer to the first ``count`` of the 16 numbers at a place."""
    kind = ir.VectorType(FLOAT, count)
    return pointer(builder, address, kind, builder.mul(place, INT64(LANES)))


@instruction
def _leave_out(_: Any, scores: Any, seen: Any, rows: Any) -> Any:
    """Subtract each lane's maximum from its scores; unseen rows become minus infinity.

    ``seen`` has a bit for each lane, 16 for each row.
    """

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        its_scores, its_seen, its_rows = args
        nothing = ir.Constant(FLOATS, [float("-inf")] * LANES)

        def target(k: Any) -> Any:
            return _lanes(builder, its_scores, k)

        def find(k: Any, most: list[Any]) -> list[Any]:
            place = builder.add(its_seen, builder.mul(k, INT64(LANES // 8)))
            bits = builder.load(pointer(builder, place, ir.IntType(LANES)))
            sees = builder.bitcast(bits, ir.VectorType(ir.IntType(1), LANES))
            score = builder.select(sees, builder.load(target(k), align=LINE), nothing)
            builder.store(score, target(k), align=LINE)
            is_more = builder.fcmp_ordered(">", score, most[0])
            return [builder.select(is_more, score, most[0])]

        [most] = loop(builder, its_rows, [nothing], find)

        def take_off(k: Any, _: list[Any]) -> list[Any]:
            less = builder.fsub(builder.load(target(k), align=LINE), most)
            builder.store(less, target(k), align=LINE)
            return []

        loop(builder, its_rows, [], take_off)
        return context.get_dummy_value()

    return types.void(scores, seen, rows), emit


@instruction
def _sum(_: Any, weights: Any, rows: Any, totals: Any) -> Any:
    """Add up each lane's weights, in the order of the rows."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        its_weights, its_rows, its_totals = args

        def body(k: Any, sums: list[Any]) -> list[Any]:
            return [
                builder.fadd(sums[0], builder.load(_lanes(builder, its_weights, k), align=LINE))
            ]

        [total] = loop(builder, its_rows, [ir.Constant(FLOATS, [0.0] * LANES)], body)
        builder.store(total, pointer(builder, its_totals, FLOATS), align=LINE)
        return context.get_dummy_value()

    return types.void(weights, rows, totals), emit
