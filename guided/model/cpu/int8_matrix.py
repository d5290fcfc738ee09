"""Matrices of int8, multiplied by rows of 16-bit numbers, on any processor that has vectors.

A row of activations has outliers, and one int8 with a scale for the row loses the smaller numbers.
So a row is rounded to steps of 1 / 32,385 of its farthest number, which takes 16 bits.

A matrix lies as ``int8_layout`` describes, with 128 added to each weight. A register of it is split
into its even and its odd bytes, both as 16-bit numbers, and meets two numbers of a row each time.
Two products of such numbers are added to one of 32 bits, for which LLVM finds the processor's
instruction: with VNNI ``vpdpwssd``, else ``pmaddwd``, with NEON ``smull``::

    w[0, k] w[0, k+1] | w[1, k] w[1, k+1] | ...        and     w[0, k+2] w[0, k+3] | ...
    x[k]    x[k+1]    | x[k]    x[k+1]    | ...                x[k+2]    x[k+3]    | ...

A sum of 256 inputs fits into 32 bits, and the sums of a row into a double, so nothing is rounded
before the very end, and a row's product is the same whatever rows stand beside it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from llvmlite import ir

from guided.model.cpu.addresses import take_next
from guided.model.cpu.instructions import best_instructions, register_width
from guided.model.cpu.int8_layout import INPUTS, OFFSET, Int8Layout, in_steps
from guided.model.cpu.kernel import emitted, exact_task, kernel
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
from guided.model.cpu.thread_team import COUNTER_APART, run_together, team_address, team_size

__all__ = ["Int8Matrix"]

_AT_ONCE: Final = 12 if register_width(best_instructions()) == LANES else 6
"""Rows whose sums fit into the registers: 32 of 16 numbers, or 16 of 8, two for each."""
_EXACT = 256 // INPUTS
"""Lines of a block whose products are added up in 32 bits: 256 * 255 * 32,385 is below 2**31."""
_TAKEN = 12
"""Blocks that a thread takes at a time."""
_MOST: Final = np.float32(127 * 255)
"""Steps to the farthest number of a row."""
_LEAST: Final = np.float32(1e-30)
_HALF: Final = np.float32(0.5)
_WORD = ir.IntType(16)
_WORDS, _WIDE = ir.VectorType(_WORD, 2 * LANES), ir.VectorType(INT32, 2 * LANES)
_DOUBLES = ir.VectorType(DOUBLE, LANES)
_COUNTER: Final = 11 + COUNTER_APART
"""Where a job has its counter."""


class Int8Matrix:
    """Weights as int8 with a scale for each output, rows as 16-bit numbers with a scale each."""

    __slots__ = ("_bias", "_job", "_layout", "nbytes")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, memory: LargePages) -> None:
        self._layout = layout = Int8Layout.of(*in_steps(weight), memory)
        self._bias = layout.pad_bias(bias)
        self._job = np.zeros(_COUNTER + 1, np.int64)
        self._job[[0, 3, 4]] = layout.weights.ctypes.data, layout.lines, layout.width
        self._job[[8, 9]] = layout.scales.ctypes.data, self._bias.ctypes.data
        self.nbytes = layout.weights.nbytes + layout.scales.nbytes

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        count = len(rows)
        words = np.zeros((count, self._layout.inputs), np.int16)
        sums, scales = np.empty(count, np.float64), np.empty(count, np.float32)
        _make_words(rows, words, sums, scales)
        products = np.empty((count, self._layout.width), np.float32)
        job = self._job.copy()  # of this call alone: others may multiply at the same time
        team, function = team_address(), _multiply_words.address
        _start(job, words, sums, scales, products, team, function, team_size())
        return np.ascontiguousarray(products[:, : self._layout.outputs])


@kernel
def _make_words(rows: Any, words: Any, sums: Any, scales: Any) -> None:
    """Turn rows into steps, and add up those of each row, times the offset of the weights."""
    for t in range(len(rows)):
        row, its_words = rows[t], words[t]
        most = max(farthest(row), _LEAST)
        scales[t] = most / _MOST
        per_step = _MOST / most
        total = np.int64(0)
        for d in range(len(row)):
            step = np.int16(np.floor(row[d] * per_step + _HALF))
            its_words[d] = step
            total += step
        sums[t] = OFFSET * total


@emitted
def _multiply_block(builder: Any, job: Any, block: Any, first: Any, count: Any) -> None:
    """Multiply one block by 1 to 12 rows from a first one on, by 1 to 6 with fewer registers."""
    for_each_count(
        builder, count, _AT_ONCE, lambda rows: _Products(builder, job, block, first, rows).emit()
    )


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


@kernel
def _start(
    job: Any, words: Any, sums: Any, scales: Any, products: Any, team: Any, function: Any, size: Any
) -> None:
    """Complete ``job`` with what belongs to one call, and run it.

    Its places hold the addresses of weights, rows and products; lines of a block, outputs, rows;
    nothing; the addresses of the counter, of scales and biases of outputs, of scales and sums of
    rows.
    """
    job[1], job[2], job[5], job[_COUNTER] = words.ctypes.data, products.ctypes.data, len(scales), 0
    job[7] = job.ctypes.data + _COUNTER * 8
    job[10], job[11] = scales.ctypes.data, sums.ctypes.data
    run_together(team, function, job.ctypes.data, size)


@exact_task
def _multiply_words(job: Any) -> None:
    """Multiply by blocks of outputs until none is left; ``job`` is that of ``_start``."""
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
