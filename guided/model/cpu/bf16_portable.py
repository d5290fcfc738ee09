"""Pairs of bf16 widened and multiplied as float32, on any processor that has vectors.

A bf16 is the upper half of a float32. So the pairs of 16 outputs become two registers, those of
the first inputs and those of the second, and each is multiplied by one number of a row::

    w[0, k] w[0, k+1] | w[1, k] w[1, k+1] | ...     upper halves: w[0, k+1] | w[1, k+1] | ...
                                                    lower halves: w[0, k]   | w[1, k]   | ...

LLVM maps such a register to what the processor has: one of AVX-512, two of AVX2, four of NEON.
Rows need not be rounded, because they meet floats. Each sum runs from the first input to the last,
with a fused instruction if the processor has one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import take_next
from guided.model.cpu.bf16_matrix import BLOCK, LINES, Bf16Kernel
from guided.model.cpu.kernel import exact_task, instruction
from guided.model.cpu.llvm import (
    AHEAD,
    FLOAT,
    FLOATS,
    INT64,
    INTS,
    LANES,
    LINE,
    for_each_count,
    loop,
    multiply_add,
    pointer,
    prefetch,
    splat,
)

__all__ = ["PORTABLE"]

_MOST = 6
"""Rows whose sums for half a block fit into 16 registers of 8 floats."""
_BOTH = _MOST // 2
"""Rows up to which the sums for a whole block fit."""
_TAKEN = 3
"""Blocks that a thread takes at a time."""
_UPPER = ir.Constant(INTS, [-0x10000] * LANES)
_SHIFT = ir.Constant(INTS, [16] * LANES)


@instruction
def _multiply_block(
    _: Any, weights: Any, rows: Any, products: Any, depth: Any, outputs: Any, ahead: Any, count: Any
) -> Any:
    """Multiply one block by a group of ``count`` rows, 1 to 6; prefetch ``ahead`` bytes after it.

    ``weights``, ``rows`` and ``products`` are addresses. A row has ``depth`` times 32 inputs, and a
    row of the products ``outputs`` numbers.
    """

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        *operands, its_count = args

        def emit_count(count: int) -> None:
            # Both halves of a block at once, so that each number of a row is loaded once.
            for halves in [(0, 1)] if count <= _BOTH else [(0,), (1,)]:
                _emit_products(builder, count, halves, *operands)

        for_each_count(builder, its_count, _MOST, emit_count)
        return context.get_dummy_value()

    return types.void(weights, rows, products, depth, outputs, ahead, count), emit


def _emit_products(
    builder: Any,
    count: int,
    halves: tuple[int, ...],
    weights: Any,
    rows: Any,
    products: Any,
    depth: Any,
    outputs: Any,
    ahead: Any,
) -> None:
    """Emit the loop over the pairs of a block, with a register of sums for each row and half.

    ``halves`` says which halves of the block are multiplied, ``count`` by how many rows.
    """
    length = builder.mul(depth, INT64(2 * LINE))  # bytes of a row
    starts = [builder.add(rows, builder.mul(length, INT64(row))) for row in range(count)]

    def add_products(k: Any, sums: list[Any]) -> list[Any]:
        line = builder.add(weights, builder.mul(k, INT64(2 * LINE)))
        # The second half of a block finds in the caches what the first has prefetched.
        for half in range(2) if 0 in halves else ():
            place = builder.add(line, INT64(half * LINE))
            prefetch(builder, builder.add(place, ahead), level=2)
        numbers = [_widen_pairs(builder, builder.add(line, INT64(half * LINE))) for half in halves]
        grown = list(sums)
        for row, start in enumerate(starts):
            for second in range(2):
                place = builder.add(builder.mul(k, INT64(2)), INT64(second))
                number = splat(builder, builder.load(pointer(builder, start, FLOAT, place)))
                for half, weight in enumerate(numbers):
                    total = row * len(halves) + half
                    grown[total] = multiply_add(builder, weight[second], number, grown[total])
        return grown

    nothing = [ir.Constant(FLOATS, [0.0] * LANES)] * (count * len(halves))
    sums = loop(builder, builder.mul(depth, INT64(LINES)), nothing, add_products)
    for number, total in enumerate(sums):
        row, half = number // len(halves), halves[number % len(halves)]
        place = builder.add(builder.mul(outputs, INT64(row)), INT64(half * LANES))
        builder.store(total, pointer(builder, products, FLOATS, place), align=4)


def _widen_pairs(builder: Any, line: Any) -> tuple[Any, Any]:
    """Return the first and the second inputs of the pairs in a line, as float32."""
    pairs = builder.load(pointer(builder, line, INTS), align=LINE)
    first, second = builder.shl(pairs, _SHIFT), builder.and_(pairs, _UPPER)
    return builder.bitcast(first, FLOATS), builder.bitcast(second, FLOATS)


@exact_task
def _multiply_widened(job: Any) -> None:
    """Multiply all groups of rows by blocks, until none is left; ``job`` is that of ``_start``."""
    weights, rows, products = job[0], job[1], job[2]
    depth, blocks, groups, lines, counter = job[3], job[4], job[5], job[6], job[8]
    outputs = blocks * BLOCK
    while True:
        first = take_next(counter) * _TAKEN
        if first >= blocks:
            return
        for block in range(first, min(first + _TAKEN, blocks)):
            # It stays in the caches for the groups after the first.
            its_weights = weights + block * depth * 2 * LINES * LINE
            for group in range(groups):
                ahead = AHEAD
                if groups > 1:  # the next block, if the last rows take longer than reading it
                    ahead = depth * 2 * LINES * LINE if group + 1 == groups else 0
                its_rows = rows + group * depth * lines * 2 * LINE
                its_products = products + (group * lines * outputs + block * BLOCK) * 4
                _multiply_block(its_weights, its_rows, its_products, depth, outputs, ahead, lines)


PORTABLE = Bf16Kernel(_multiply_widened, _MOST, by_halves=False, rounds=False)
