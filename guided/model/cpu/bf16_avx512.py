"""Pairs of bf16 multiplied in registers of 16 sums (AVX-512 BF16).

One instruction multiplies a pair of inputs of a row by the pairs of 16 outputs and adds the
products to 16 sums in float32. The weights of a pair are read once for up to 12 rows::

    x[0, k] x[0, k+1] | x[0, k] x[0, k+1] | ...        s[0, 0] | s[0, 1] | ...
    w[0, k] w[0, k+1] | w[1, k] w[1, k+1] | ...

Each sum runs from the first pair to the last.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import take_next
from guided.model.cpu.bf16_matrix import BLOCK, LINES, Bf16Kernel
from guided.model.cpu.kernel import instruction, task
from guided.model.cpu.llvm import (
    AHEAD,
    FLOATS,
    INT32,
    INT64,
    LANES,
    LINE,
    for_each_count,
    loop,
    pointer,
    prefetch,
    splat,
)

__all__ = ["AVX512"]

_MOST = 12
"""Rows whose sums fit into the registers, two for each."""
_TAKEN = 3
"""Blocks that a thread takes at a time."""
_INSTRUCTION = "llvm.x86.avx512bf16.dpbf16ps.512"


class _Bf16(ir.Type):  # type: ignore[misc]
    """The LLVM type of bf16, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"


_PAIRS = ir.VectorType(_Bf16(), 2 * LANES)


@instruction
def _multiply_block(
    _: Any, weights: Any, rows: Any, products: Any, depth: Any, outputs: Any, ahead: Any, count: Any
) -> Any:
    """Multiply one block by a group of 1 to 12 rows; prefetch ``ahead`` bytes after it."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        *operands, its_count = args
        for_each_count(
            builder, its_count, _MOST, lambda count: _emit_products(builder, count, *operands)
        )
        return context.get_dummy_value()

    return types.void(weights, rows, products, depth, outputs, ahead, count), emit


def _emit_products(
    builder: Any,
    count: int,
    weights: Any,
    rows: Any,
    products: Any,
    depth: Any,
    outputs: Any,
    ahead: Any,
) -> None:
    """Emit the loop over the pairs of a block, with two registers of sums for each row."""
    length = builder.mul(depth, INT64(LINE))  # bytes of a row
    starts = [builder.add(rows, builder.mul(length, INT64(row))) for row in range(count)]

    def add_products(k: Any, sums: list[Any]) -> list[Any]:
        numbers = []
        for half in range(2):
            place = builder.add(weights, builder.mul(k, INT64(2 * LINE)))
            place = builder.add(place, INT64(half * LINE))
            prefetch(builder, builder.add(place, ahead), level=2)
            numbers.append(builder.load(pointer(builder, place, _PAIRS), align=LINE))
        grown = []
        for row, start in enumerate(starts):
            pair = builder.load(pointer(builder, start, INT32, k), align=4)
            spread = builder.bitcast(splat(builder, pair), _PAIRS)
            for total, weight in zip(sums[2 * row : 2 * row + 2], numbers, strict=True):
                grown.append(_dot(builder, total, spread, weight))
        return grown

    nothing = ir.Constant(FLOATS, [0.0] * LANES)
    sums = loop(builder, builder.mul(depth, INT64(LINES)), [nothing] * (2 * count), add_products)
    for number, total in enumerate(sums):
        row, half = divmod(number, 2)
        place = builder.add(builder.mul(outputs, INT64(row)), INT64(half * LANES))
        builder.store(total, pointer(builder, products, FLOATS, place), align=4)


def _dot(builder: Any, sums: Any, row: Any, weights: Any) -> Any:
    """Return ``sums`` plus 16 times two products."""
    kind = ir.FunctionType(FLOATS, [FLOATS, _PAIRS, _PAIRS])
    function = builder.module.declare_intrinsic(_INSTRUCTION, (), kind)
    return builder.call(function, [sums, row, weights])


@task
def _multiply_dots(job: Any) -> None:
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
                its_rows = rows + group * depth * lines * LINE
                its_products = products + (group * lines * outputs + block * BLOCK) * 4
                _multiply_block(its_weights, its_rows, its_products, depth, outputs, ahead, lines)


AVX512 = Bf16Kernel(_multiply_dots, _MOST, by_halves=False)
