"""Products of a few rows of int8 with a matrix of int8, as fast as its weights can be read.

A matrix lies as ``int8_layout`` describes. A register takes a line, four inputs of 16 outputs, and
one instruction multiplies them by four inputs of a row and adds them to 16 sums. It needs one side
unsigned, so weights are kept with 128 added, and 128 times the sum of a row is subtracted from its
products in the end.

Rows come in two parts, coarse and fine, see ``int8_matrix``. All sums are exact, and the floats
made of them are rounded as there, so a product is the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from guided.model.cpu.addresses import take_next
from guided.model.cpu.int8_job import Int8Job
from guided.model.cpu.int8_layout import INPUTS, OFFSET, Int8Layout
from guided.model.cpu.kernel import exact_task, instruction
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
    pointer,
    prefetch,
    splat,
)

__all__ = ["FINER", "Int8Avx512"]

FINER = 254
"""Steps of the fine part in one of the coarse part."""
_AT_ONCE = 12
"""Rows whose sums fit into the registers, two for each."""
_TAKEN = 12
"""Blocks that a thread takes at a time."""


class Int8Avx512:
    """A matrix of int8, ``[out, in]``."""

    __slots__ = ("_job", "layout")

    def __init__(self, layout: Int8Layout, bias: torch.Tensor | None) -> None:
        self.layout = layout
        self._job = Int8Job(layout, bias, layout.inputs)

    def __call__(
        self, steps: NDArray[np.int8], sums: NDArray[np.int32], scales: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Map ``[2 * tokens, layout.inputs]``, their ``sums``, and the tokens' ``scales`` to
        ``[tokens, out]``."""
        return self._job.run(_multiply_int8, steps, sums, scales)


@instruction
def _multiply_block(_: Any, job: Any, block: Any, first: Any, count: Any) -> Any:
    """Multiply one block by 1 to 12 rows from a first one on."""

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
        self._builder, self._job, self._block, self._first = builder, job, block, first
        self._count = count
        self._inputs, self._rows = self._job_number(3), self._job_number(5)

    def emit(self) -> None:
        """Emit the sums of all rows with the block's 16 outputs, and their stores."""
        builder = self._builder
        weights = builder.add(
            self._job_number(0),
            builder.mul(self._block, builder.mul(self._inputs, INT64(LANES))),
        )
        for t, (coarse, fine) in enumerate(self._sums(weights)):
            self._store(t, coarse, fine)

    def _sums(self, weights: Any) -> list[tuple[Any, Any]]:
        """Emit the loop over the inputs of a block, with two vectors of sums for each row."""
        builder = self._builder
        places = [self._place(t) for t in range(self._count)]
        rows = [
            builder.add(self._job_number(1), builder.mul(place, self._inputs))
            for pair in places
            for place in pair
        ]

        def add_products(k: Any, sums: list[Any]) -> list[Any]:
            line = builder.add(weights, builder.mul(k, INT64(LINE)))
            prefetch(builder, builder.add(line, INT64(AHEAD)))
            numbers = builder.load(pointer(builder, line, INTS), align=LINE)
            grown = []
            for row, total in zip(rows, sums, strict=True):
                inputs = builder.load(pointer(builder, row, INT32, k), align=INPUTS)
                grown.append(_dot(builder, total, numbers, splat(builder, inputs)))
            return grown

        nothing = ir.Constant(INTS, [0] * LANES)
        steps = builder.sdiv(self._inputs, INT64(INPUTS))
        sums = loop(builder, steps, [nothing] * len(rows), add_products)
        return list(zip(sums[::2], sums[1::2], strict=True))

    def _store(self, t: int, coarse: Any, fine: Any) -> None:
        """Store the product of a row: the sums of both its halves, scaled, with the bias added.

        The operations are those of ``int8_matrix``, in the same order, so both round alike.
        """
        builder = self._builder
        of_coarse, of_fine = self._place(t)
        output = builder.mul(self._block, INT64(LANES))
        steps = self._vector(8, output)
        found = builder.fmul(self._whole(coarse, of_coarse), steps)
        finer = builder.fmul(self._whole(fine, of_fine), steps)
        finer = builder.fmul(finer, ir.Constant(FLOATS, [_PER_FINER] * LANES))
        found = builder.fadd(found, finer)
        scale = builder.load(pointer(builder, self._job_number(10), FLOAT, of_coarse))
        found = builder.fadd(builder.fmul(found, splat(builder, scale)), self._vector(9, output))
        place = builder.add(builder.mul(of_coarse, self._job_number(4)), output)
        builder.store(found, pointer(builder, self._job_number(2), FLOATS, place), align=4)

    def _whole(self, sums: Any, place: Any) -> Any:
        """Return sums as floats, without the offset of the weights."""
        builder = self._builder
        of_row = builder.load(pointer(builder, self._job_number(11), INT32, place))
        added = splat(builder, builder.mul(of_row, INT32(OFFSET)))
        return builder.sitofp(builder.sub(sums, added), FLOATS)

    def _place(self, t: int) -> tuple[Any, Any]:
        """Return where the coarse and the fine part of a row are."""
        coarse = self._builder.add(self._first, INT64(t))
        return coarse, self._builder.add(coarse, self._rows)

    def _vector(self, number: int, place: Any) -> Any:
        builder = self._builder
        return builder.load(pointer(builder, self._job_number(number), FLOATS, place), align=4)

    def _job_number(self, number: int) -> Any:
        """Return a number of the job."""
        builder = self._builder
        return builder.load(builder.gep(self._job, [INT64(number)]))


_PER_FINER = float(np.float32(1 / FINER))


def _dot(builder: Any, total: Any, numbers: Any, inputs: Any) -> Any:
    """Return ``total`` plus 16 times four products, of unsigned bytes and signed ones."""
    kind = ir.FunctionType(INTS, [INTS, INTS, INTS])
    name = "llvm.x86.avx512.vpdpbusd.512"
    return builder.call(builder.module.declare_intrinsic(name, (), kind), [total, numbers, inputs])


@exact_task
def _multiply_int8(job: Any) -> None:
    """Multiply by blocks of 16 outputs until none is left; ``job`` is that of ``Int8Job``."""
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
