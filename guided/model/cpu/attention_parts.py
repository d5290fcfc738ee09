"""Parts of attention that both arrangements of registers share: a tile of rows, and the mask.

A tile has 16 rows of one head as float32, ``TILE_ROW`` numbers apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import floats, halves, integers
from guided.model.cpu.instructions import best_instructions, register_width
from guided.model.cpu.kernel import emitted, inlined, instruction
from guided.model.cpu.llvm import FLOAT, FLOATS, INT32, INT64, LANES, LINE, loop, pointer, prefetch
from guided.model.cpu.numbers import exponential, widen

__all__ = [
    "FUSED",
    "TILE_ROW",
    "WIDEST_HEAD",
    "ask_for",
    "clear",
    "lane_pointer",
    "leave_lanes_out",
    "leave_rows_out",
    "query_place",
    "spread",
    "sums_at_once",
    "weigh",
    "whole",
]

WIDEST_HEAD: Final = 256
"""The most numbers in a head."""
TILE_ROW: Final = WIDEST_HEAD + LANES
"""Numbers from one row of a tile to the next: fixed, so that instructions contain it, and not a
power of two, so that rows do not evict each other from the cache."""
FUSED: Final = ("contract",)
"""Lets a product and the sum that it is added to become one instruction. Wherever a product is used
it is used once, right by its sum, so a processor fuses all of them or none."""


def sums_at_once() -> int:
    """Return how many sums of 16 lanes to have in registers; each may take several of them."""
    return {16: 16, 8: 4, 4: 2}[register_width(best_instructions())]


@inlined
def whole(count: Any) -> Any:
    """Round ``count`` up to whole registers of 16."""
    return -(-count // LANES) * LANES


@inlined
def query_place(job: Any, group: Any, head: Any, number: Any) -> Any:
    """Return the token of a group's query, and its head."""
    place = group[4] + number
    return group[3] + place // job[5], head * job[5] + place % job[5]


@inlined
def spread(job: Any, cache: Any, group: Any, head: Any, first: Any, tile: Any) -> None:
    """Read up to 16 rows of one head from the cache as float32."""
    slots, size, kv_heads = integers(group[0]), job[7], job[6]
    for row in range(first, min(first + LANES, group[1])):
        source = cache + (slots[row] * kv_heads + head) * size * job[4]
        target = floats(tile + (row - first) * TILE_ROW * 4)
        if job[4] == 2:
            bits = halves(source)
            for d in range(size):
                target[d] = widen(bits[d])
        else:
            numbers = floats(source)
            for d in range(size):
                target[d] = numbers[d]


@inlined
def ask_for(job: Any, cache: Any, group: Any, head: Any, first: Any) -> None:
    """Prefetch what ``spread`` reads next; the processor cannot foresee its many places."""
    slots, kv_heads, nbytes = integers(group[0]), job[6], job[7] * job[4]
    for row in range(first, min(first + LANES, group[1])):
        start = cache + (slots[row] * kv_heads + head) * nbytes
        for line in range(0, nbytes, LINE):
            _ask(start + line)


@inlined
def clear(address: Any, lines: Any) -> None:
    target = floats(address)
    for place in range(lines * LANES):
        target[place] = np.float32(0)


@inlined
def weigh(scores: Any, count: Any) -> None:
    """Turn ``count`` scores into weights, after maxima were subtracted.

    A part of its own, so that LLVM compiles the exponential alike wherever it is used.
    """
    numbers = floats(scores)
    for place in range(count):
        numbers[place] = exponential(numbers[place])


@emitted
def _ask(builder: Any, address: Any) -> None:
    """Prefetch the cache line of an address."""
    prefetch(builder, address)


def lane_pointer(builder: Any, address: Any, place: Any, count: int = LANES) -> Any:
    """Return a pointer to the first ``count`` of the 16 numbers at a place."""
    kind = ir.VectorType(FLOAT, count)
    return pointer(builder, address, kind, builder.mul(place, INT64(LANES)))


def _leaving_out(*, is_across: bool) -> Callable[..., Any]:
    """Make an instruction that subtracts maxima from scores; unseen ones become minus infinity.

    Its arguments are the address of scores, 16 side by side, that of a bit for each of them, and
    how many times 16 they are. ``is_across`` takes one maximum of all in place of one for a lane.
    A score that is NaN gets no weight: the value of its row, of the same numbers, carries it on.
    """

    def leave_out(_: Any, scores: Any, seen: Any, count: Any) -> Any:
        def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
            its_scores, its_seen, its_count = args
            nothing = ir.Constant(FLOATS, [float("-inf")] * LANES)

            def larger(one: Any, other: Any) -> Any:
                return builder.select(builder.fcmp_ordered(">", one, other), one, other)

            def find(k: Any, most: list[Any]) -> list[Any]:
                place = builder.add(its_seen, builder.mul(k, INT64(LANES // 8)))
                bits = builder.load(pointer(builder, place, ir.IntType(LANES)))
                sees = builder.bitcast(bits, ir.VectorType(ir.IntType(1), LANES))
                target = lane_pointer(builder, its_scores, k)
                score = builder.select(sees, builder.load(target, align=LINE), nothing)
                builder.store(score, target, align=LINE)
                return [larger(score, most[0])]

            [most] = loop(builder, its_count, [nothing], find)
            step = LANES // 2 if is_across else 0
            while step:
                around = [(lane + step) % LANES for lane in range(LANES)]
                mask = ir.Constant(ir.VectorType(INT32, LANES), around)
                most = larger(builder.shuffle_vector(most, most, mask), most)
                step //= 2

            def take_off(k: Any, _: list[Any]) -> list[Any]:
                target = lane_pointer(builder, its_scores, k)
                less = builder.fsub(builder.load(target, align=LINE), most)
                builder.store(less, target, align=LINE)
                return []

            loop(builder, its_count, [], take_off)
            return context.get_dummy_value()

        return types.void(scores, seen, count), emit

    return instruction(leave_out)


leave_lanes_out = _leaving_out(is_across=False)
leave_rows_out = _leaving_out(is_across=True)
