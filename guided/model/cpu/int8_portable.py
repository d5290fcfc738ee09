"""Products of rows with a matrix of int8 by 16-bit numbers, on any processor that has vectors.

A row is the sum of two int8 of ``int8_matrix`` as one number: coarse steps times 254, plus fine
ones, which takes 16 bits. A matrix lies as in ``int8_avx512``, with 128 added to each weight. A
register of it is split into its even and its odd bytes, both as 16-bit numbers, and so is a row.
Two products of such numbers are added to one of 32 bits, for which LLVM finds the processor's
instruction: ``pmaddwd``, with VNNI ``vpdpwssd``, with NEON ``smull``::

    w[0, k] w[0, k+2] | w[1, k] w[1, k+2] | ...        and     w[0, k+1] w[0, k+3] | ...
    x[k]    x[k+2]    | x[k]    x[k+2]    | ...                x[k+1]    x[k+3]    | ...

A sum of 256 inputs fits into 32 bits, and the sums of a row into a double, so nothing is rounded
before the very end, and a row's product is the same whatever rows stand beside it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import take_next
from guided.model.cpu.int8_job import Int8Job
from guided.model.cpu.int8_layout import INPUTS, OFFSET, Int8Layout, in_steps
from guided.model.cpu.kernel import exact_task, instruction, kernel
from guided.model.cpu.llvm import (
    AHEAD,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT32,
    INT64,
    INTS,
    LANES,
    LINE,
    for_each_count,
    loop,
    pointer,
    prefetch,
    splat,
)
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.numbers import farthest

__all__ = ["Int8PortableMatrix"]

_AT_ONCE = 6
"""Rows whose sums fit into 16 registers of 8 numbers, two for each."""
_EXACT = 256 // INPUTS
"""Lines of a block whose products are added up in 32 bits: 256 * 255 * 32,385 is below 2**31."""
_TAKEN = 12
"""Blocks that a thread takes at a time."""
_MOST: Final = np.float32(127 * 254 + 127)
"""Steps to the farthest number of a row."""
_LEAST: Final = np.float32(1e-30)
_HALF: Final = np.float32(0.5)
_WORD = ir.IntType(16)
_WORDS, _WIDE = ir.VectorType(_WORD, 2 * LANES), ir.VectorType(INT32, 2 * LANES)
_DOUBLES = ir.VectorType(DOUBLE, LANES)


class Int8PortableMatrix:
    """Weights as int8 with a scale for each output, rows as 16-bit numbers with a scale each."""

    __slots__ = ("_job", "_layout", "nbytes")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, memory: LargePages) -> None:
        self._layout = layout = Int8Layout.of(*in_steps(weight), memory)
        self._job = Int8Job(layout, bias, layout.lines)
        self.nbytes = layout.weights.nbytes + layout.scales.nbytes

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        count = len(rows)
        words = np.zeros((count, self._layout.inputs), np.int16)
        sums, scales = np.empty(count, np.float64), np.empty(count, np.float32)
        _make_words(rows, words, sums, scales)
        return self._job.run(_multiply_words, words, sums, scales)


@kernel
def _make_words(rows: Any, words: Any, sums: Any, scales: Any) -> None:
    """Turn rows into steps; of each four inputs the first and the third come before the others."""
    for t in range(len(rows)):
        row, its_words = rows[t], words[t]
        most = max(farthest(row), _LEAST)
        scales[t] = most / _MOST
        per_step = _MOST / most
        total = np.int64(0)
        for d in range(len(row)):
            step = np.int16(np.floor(row[d] * per_step + _HALF))
            its_words[d - d % INPUTS + d % 2 * 2 + d % INPUTS // 2] = step
            total += step
        sums[t] = OFFSET * total


@instruction
def _multiply_block(_: Any, job: Any, block: Any, first: Any, count: Any) -> Any:
    """Multiply one block by 1 to 6 rows from a first one on."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        its_job, its_block, its_first, its_count = args

        def products(rows: int) -> None:
            _Products(builder, its_job, its_block, its_first, rows).emit()

        for_each_count(builder, its_count, _AT_ONCE, products)
        return context.get_dummy_value()

    return types.void(job, block, first, count), emit


class _Products:
    """The instructions for one block and a number of rows."""

    def __init__(self, builder: Any, job: Any, block: Any, first: Any, count: int) -> None:
        self._builder, self._job = builder, job
        self._places = [builder.add(first, INT64(t)) for t in range(count)]
        self._output = builder.mul(block, INT64(LANES))
        self._lines = self._job_number(3)

    def emit(self) -> None:
        for place, total in zip(self._places, self._totals(), strict=True):
            self._store(place, total)

    def _totals(self) -> list[Any]:
        """Return the sums of each row over a whole block, as doubles: ``LANES`` for each row.

        Sums of 32 bits are exact for at most ``_EXACT`` lines, so they are added to doubles after
        each chunk of that many.
        """
        builder = self._builder
        whole = builder.add(self._lines, INT64(_EXACT - 1))
        chunks = builder.sdiv(whole, INT64(_EXACT))

        def add_chunk(chunk: Any, totals: list[Any]) -> list[Any]:
            first = builder.mul(chunk, INT64(_EXACT))
            left = builder.sub(self._lines, first)
            is_whole = builder.icmp_signed("<", INT64(_EXACT), left)
            sums = self._sums(first, builder.select(is_whole, INT64(_EXACT), left))
            wide = [builder.sitofp(each, _DOUBLES) for each in sums]
            return [builder.fadd(*pair) for pair in zip(totals, wide, strict=True)]

        nothing = ir.Constant(_DOUBLES, [0.0] * LANES)
        return loop(builder, chunks, [nothing] * len(self._places), add_chunk)

    def _sums(self, first: Any, count: Any) -> list[Any]:
        """Return the products of some lines, from a first one on, added up for each row."""
        builder = self._builder
        length = builder.mul(self._lines, INT64(2 * INPUTS))
        before = builder.mul(first, INT64(LINE))
        in_block = builder.mul(self._output, builder.mul(self._lines, INT64(INPUTS)))
        weights = builder.add(builder.add(self._job_number(0), in_block), before)
        words = builder.add(self._job_number(1), builder.mul(first, INT64(2 * INPUTS)))
        rows = [builder.add(words, builder.mul(place, length)) for place in self._places]

        def add_products(k: Any, sums: list[Any]) -> list[Any]:
            line = builder.add(weights, builder.mul(k, INT64(LINE)))
            prefetch(builder, builder.add(line, INT64(AHEAD)))
            numbers = builder.load(pointer(builder, line, _WORDS), align=LINE)
            grown = sums
            for odd, each in enumerate(_split(builder, numbers)):
                place = builder.add(builder.mul(k, INT64(2)), INT64(odd))
                pairs = [builder.load(pointer(builder, row, INT32, place)) for row in rows]
                found = [_pair_products(builder, each, splat(builder, pair)) for pair in pairs]
                grown = [builder.add(*pair) for pair in zip(grown, found, strict=True)]
            return grown

        nothing = ir.Constant(INTS, [0] * LANES)
        return loop(builder, count, [nothing] * len(rows), add_products)

    def _store(self, place: Any, total: Any) -> None:
        """Store the product of a row, without the offset of the weights."""
        builder = self._builder
        of_row = builder.add(self._job_number(11), builder.mul(place, INT64(8)))
        added = builder.load(pointer(builder, of_row, DOUBLE))
        found = builder.fptrunc(builder.fsub(total, splat(builder, added)), FLOATS)
        scale = builder.load(pointer(builder, self._job_number(10), FLOAT, place))
        found = builder.fmul(builder.fmul(found, self._vector(8)), splat(builder, scale))
        found = builder.fadd(found, self._vector(9))
        at = builder.add(builder.mul(place, self._job_number(4)), self._output)
        builder.store(found, pointer(builder, self._job_number(2), FLOATS, at), align=4)

    def _vector(self, number: int) -> Any:
        """Return the numbers of the block's outputs at an address of the job."""
        builder = self._builder
        return builder.load(
            pointer(builder, self._job_number(number), FLOATS, self._output), align=4
        )

    def _job_number(self, number: int) -> Any:
        """Return a number of the job."""
        builder = self._builder
        return builder.load(builder.gep(self._job, [INT64(number)]))


def _split(builder: Any, numbers: Any) -> tuple[Any, Any]:
    """Return the even and the odd bytes of a register, unsigned."""
    even = builder.and_(numbers, ir.Constant(_WORDS, [0xFF] * 2 * LANES))
    return even, builder.lshr(numbers, ir.Constant(_WORDS, [8] * 2 * LANES))


def _pair_products(builder: Any, weights: Any, pair: Any) -> Any:
    """Return 16 times the sum of two products."""
    words = builder.bitcast(pair, _WORDS)
    products = builder.mul(builder.zext(weights, _WIDE), builder.sext(words, _WIDE))
    nothing = ir.Constant(_WIDE, ir.Undefined)
    first, second = (
        builder.shuffle_vector(products, nothing, ir.Constant(INTS, list(range(n, 2 * LANES, 2))))
        for n in range(2)
    )
    return builder.add(first, second)


@exact_task
def _multiply_words(job: Any) -> None:
    """Multiply by blocks of outputs until none is left; ``job`` is that of ``Int8Job``."""
    blocks, count, counter = job[4] // LANES, job[5], job[7]
    parts = -(-count // _AT_ONCE)
    while True:
        first = take_next(counter) * _TAKEN
        if first >= blocks:
            return
        for block in range(first, min(first + _TAKEN, blocks)):
            # A block stays in the caches for the rows that do not fit in the registers.
            for part in range(parts):
                begin, end = count * part // parts, count * (part + 1) // parts
                _multiply_block(job, block, begin, end - begin)
