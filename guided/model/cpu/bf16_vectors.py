"""Pairs of bf16 multiplied in registers of 16 sums.

AVX-512 BF16 has an instruction that multiplies a pair of inputs of a row by the pairs of 16 outputs
and adds the products to 16 sums in float32. The weights of a pair are read once for all rows::

    x[0, k] x[0, k+1] | x[0, k] x[0, k+1] | ...        s[0, 0] | s[0, 1] | ...
    w[0, k] w[0, k+1] | w[1, k] w[1, k+1] | ...

Any processor that has vectors multiplies them as float32. A bf16 is the upper half of one, so the
pairs of 16 outputs become two registers, those of the first inputs and those of the second, and
each is multiplied by one number of a row::

    w[0, k] w[0, k+1] | w[1, k] w[1, k+1] | ...     upper halves: w[0, k+1] | w[1, k+1] | ...
                                                    lower halves: w[0, k]   | w[1, k]   | ...

LLVM maps such a register to what the processor has: one of AVX-512, two of AVX2, four of NEON.
Rows need not be rounded then, because they meet floats, and an instruction is fused if the
processor has it. Each sum runs from the first input to the last.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import take_next
from guided.model.cpu.bf16_matrix import BLOCK, LINES, Bf16Kernel
from guided.model.cpu.kernel import Task, exact_task, with_constants
from guided.model.cpu.llvm import (
    AHEAD,
    FLOAT,
    FLOATS,
    INT32,
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

__all__ = ["AVX512", "PORTABLE"]

_WIDENED: Final = 0
_DOTS: Final = 1
"""The two ways to multiply."""
_MOST: Final = (6, 12)
"""Rows whose sums fit into the registers, by the way: widened, those of half a block."""
_BOTH: Final = (3, 12)
"""Rows up to which the sums of a whole block fit."""
_ROW: Final = (2 * LINE, LINE)
"""Bytes of 32 inputs of a row."""
_TAKEN: Final = 3
"""Blocks that a thread takes at a time."""
_INSTRUCTION: Final = "llvm.x86.avx512bf16.dpbf16ps.512"
_UPPER = ir.Constant(INTS, [-0x10000] * LANES)
_SHIFT = ir.Constant(INTS, [16] * LANES)


class _Bf16(ir.Type):  # type: ignore[misc]
    """The LLVM type of bf16, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"


_PAIRS = ir.VectorType(_Bf16(), 2 * LANES)


@with_constants
def _multiply_block(
    _: Any,
    weights: Any,
    rows: Any,
    products: Any,
    depth: Any,
    outputs: Any,
    ahead: Any,
    count: Any,
    way: Any,
) -> Any:
    """Multiply one block by a group of ``count`` rows; prefetch ``ahead`` bytes after it.

    ``weights``, ``rows`` and ``products`` are addresses. A row has ``depth`` times 32 inputs, and a
    row of the products ``outputs`` numbers. ``way`` is a constant.
    """
    if not isinstance(way, types.Literal):
        return None
    chosen = way.literal_value

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        def emit_count(count: int) -> None:
            # Both halves of a block at once, so that each number of a row is loaded once.
            for halves in [(0, 1)] if count <= _BOTH[chosen] else [(0,), (1,)]:
                _emit_products(builder, chosen, count, halves, *args[:6])

        for_each_count(builder, args[6], _MOST[chosen], emit_count)
        return context.get_dummy_value()

    return types.void(weights, rows, products, depth, outputs, ahead, count, way), emit


def _emit_products(
    builder: Any,
    way: int,
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
    length = builder.mul(depth, INT64(_ROW[way]))  # bytes of a row
    starts = [builder.add(rows, builder.mul(length, INT64(row))) for row in range(count)]

    def add_products(k: Any, sums: list[Any]) -> list[Any]:
        line = builder.add(weights, builder.mul(k, INT64(2 * LINE)))
        # The second half of a block finds in the caches what the first has prefetched.
        for half in range(2) if 0 in halves else ():
            place = builder.add(line, INT64(half * LINE))
            prefetch(builder, builder.add(place, ahead), level=2)
        places = [builder.add(line, INT64(half * LINE)) for half in halves]
        pairs = [builder.load(pointer(builder, place, INTS), align=LINE) for place in places]
        add = _add_dots if way == _DOTS else _add_widened
        return add(builder, sums, pairs, starts, k)

    nothing = [ir.Constant(FLOATS, [0.0] * LANES)] * (count * len(halves))
    sums = loop(builder, builder.mul(depth, INT64(LINES)), nothing, add_products)
    for number, total in enumerate(sums):
        row, half = number // len(halves), halves[number % len(halves)]
        place = builder.add(builder.mul(outputs, INT64(row)), INT64(half * LANES))
        builder.store(total, pointer(builder, products, FLOATS, place), align=4)


def _add_dots(
    builder: Any, sums: list[Any], pairs: list[Any], starts: list[Any], k: Any
) -> list[Any]:
    """Return ``sums`` plus two products each, of the ``k``-th pair of each row."""
    kind = ir.FunctionType(FLOATS, [FLOATS, _PAIRS, _PAIRS])
    dot = builder.module.declare_intrinsic(_INSTRUCTION, (), kind)
    weights = [builder.bitcast(pair, _PAIRS) for pair in pairs]
    totals, grown = iter(sums), []
    for start in starts:
        pair = builder.load(pointer(builder, start, INT32, k), align=4)
        spread = builder.bitcast(splat(builder, pair), _PAIRS)
        grown += [builder.call(dot, [next(totals), spread, weight]) for weight in weights]
    return grown


def _add_widened(
    builder: Any, sums: list[Any], pairs: list[Any], starts: list[Any], k: Any
) -> list[Any]:
    """Do as ``_add_dots`` in float32, for rows of float32."""
    weights = [(builder.shl(pair, _SHIFT), builder.and_(pair, _UPPER)) for pair in pairs]
    grown = list(sums)
    for row, start in enumerate(starts):
        for second in range(2):
            place = builder.add(builder.mul(k, INT64(2)), INT64(second))
            number = splat(builder, builder.load(pointer(builder, start, FLOAT, place)))
            for total, weight in enumerate(weights, row * len(weights)):
                wide = builder.bitcast(weight[second], FLOATS)
                grown[total] = multiply_add(builder, wide, number, grown[total])
    return grown


def _multiply(way: int) -> Task:
    """Return the task that multiplies in a way; its job is that of ``bf16_matrix._start``."""
    of_row = _ROW[way]

    @exact_task
    def multiply(job: Any) -> None:
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
                    at = rows + group * depth * lines * of_row
                    target = products + (group * lines * outputs + block * BLOCK) * 4
                    _multiply_block(its_weights, at, target, depth, outputs, ahead, lines, way)

    return multiply


AVX512 = Bf16Kernel(_multiply(_DOTS), _MOST[_DOTS], by_halves=False)
PORTABLE = Bf16Kernel(_multiply(_WIDENED), _MOST[_WIDENED], by_halves=False, rounds=False)
