"""Products of up to eight rows with a matrix, as fast as its weights can be read.

A matrix lies in blocks of 32 outputs, each from its first input to its last, so that memory is read
from one end to the other. A register takes the weights of all outputs of a block for one input, and
these meet every row before the next ones are read. In bf16 the upper half of each 32 bits belongs
to the output 16 further than that of the lower half::

    w[0, k] w[16, k] | w[1, k] w[17, k] | ... | w[15, k] w[31, k]     and behind them those of k + 1

Activations are float32, as are sums. Threads take blocks as they get to them, so one that is held
up leaves more to the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from guided.model.cpu.addresses import take_next
from guided.model.cpu.kernel import instruction, kernel, task
from guided.model.cpu.large_pages import LargePages
from guided.model.cpu.team import run_together, team_address, team_size
from guided.model.cpu.vectors import (
    AHEAD,
    FLOAT,
    FLOATS,
    INT64,
    INTS,
    LANES,
    LINE,
    for_each_count,
    pointer,
    prefetch,
    splat,
)

__all__ = ["MOST_STREAMED", "Bf16Stream", "can_stream"]

MOST_STREAMED = 8
"""Rows whose sums fit into the registers."""
_BLOCK = 2 * LANES
_TAKEN = 6
"""Blocks that a thread takes at a time."""
_FUSED = ("contract",)


def can_stream() -> bool:
    """Whether this processor has the registers for it."""
    return bool(torch.cpu.get_capabilities().get("avx512_f"))


class Bf16Stream:
    """A matrix of bf16, ``[out, in]``; of the outputs there are a multiple of 32."""

    __slots__ = ("_job", "_outputs", "_weights")

    def __init__(self, weight: torch.Tensor, memory: LargePages) -> None:
        outputs, inputs = weight.shape
        halves = weight.view(torch.uint16).numpy().reshape(-1, 2, LANES, inputs)
        self._weights = memory.take(weight.nbytes)
        self._weights.view(np.uint16).reshape(-1, inputs, LANES, 2)[:] = halves.transpose(
            0, 3, 2, 1
        )
        self._outputs = outputs
        self._job = np.zeros(8, np.int64)
        self._job[[0, 3, 4]] = self._weights.ctypes.data, inputs, outputs

    @staticmethod
    def fits(weight: torch.Tensor) -> bool:
        """Whether a matrix can be laid out so, and that is good for something here."""
        return can_stream() and weight.shape[0] % _BLOCK == 0

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """``[tokens, in]`` → ``[tokens, out]``, up to eight tokens."""
        assert len(rows) <= MOST_STREAMED, f"{len(rows)} rows"
        products = np.empty((len(rows), self._outputs), np.float32)
        job = self._job.copy()  # of this call alone: others may multiply at the same time
        _start(job, rows, products, team_address(), _multiply_bf16.address, team_size())
        return products


@kernel
def _start(job: Any, rows: Any, products: Any, team: Any, function: Any, threads: Any) -> None:
    """``job`` is where weights, rows and products are, inputs, outputs and rows, and a counter."""
    job[1], job[2], job[5], job[6] = rows.ctypes.data, products.ctypes.data, len(rows), 0
    job[7] = job.ctypes.data + 6 * 8
    run_together(team, function, job.ctypes.data, threads)


@instruction
def _multiply_block(
    _: Any, weights: Any, rows: Any, products: Any, inputs: Any, outputs: Any, count: Any
) -> Any:
    """One block times 1 to 8 rows: three addresses, and the lengths of rows."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        *operands, its_count = args
        for_each_count(
            builder, its_count, MOST_STREAMED, lambda rows: _emit_loop(builder, rows, *operands)
        )
        return context.get_dummy_value()

    return types.void(weights, rows, products, inputs, outputs, count), emit


def _emit_loop(
    builder: Any, count: int, weights: Any, rows: Any, products: Any, inputs: Any, outputs: Any
) -> None:
    """From input to input of a block, with two vectors of sums for each of so many rows."""
    before = builder.block
    loop, behind = builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(INT64)
    sums = [builder.phi(FLOATS) for _ in range(2 * count)]
    line = builder.add(weights, builder.mul(k, INT64(LINE)))
    prefetch(builder, builder.add(line, INT64(AHEAD)))
    halves = _halves(builder, builder.load(pointer(builder, line, INTS), align=LINE))
    grown = []
    for t in range(count):
        place = builder.add(k, builder.mul(inputs, INT64(t)))
        number = splat(builder, builder.load(pointer(builder, rows, FLOAT, place)))
        for half, total in zip(halves, sums[2 * t : 2 * t + 2], strict=True):
            product = builder.fmul(number, half, flags=_FUSED)
            grown.append(builder.fadd(product, total, flags=_FUSED))
    after = builder.add(k, INT64(1))
    builder.cbranch(builder.icmp_signed("<", after, inputs), loop, behind)
    k.add_incoming(INT64(0), before)
    k.add_incoming(after, loop)
    for phi, total in zip(sums, grown, strict=True):
        phi.add_incoming(ir.Constant(FLOATS, [0.0] * LANES), before)
        phi.add_incoming(total, loop)
    builder.position_at_end(behind)
    for number, total in enumerate(grown):
        t, half = divmod(number, 2)
        place = builder.add(builder.mul(outputs, INT64(t)), INT64(half * LANES))
        builder.store(total, pointer(builder, products, FLOATS, place), align=4)


def _halves(builder: Any, packed: Any) -> tuple[Any, Any]:
    """The float32 equal to the lower and to the upper bf16 of each 32 bits."""
    low = builder.shl(packed, ir.Constant(INTS, [16] * LANES))
    high = builder.and_(packed, ir.Constant(INTS, [0xFFFF0000] * LANES))
    return builder.bitcast(low, FLOATS), builder.bitcast(high, FLOATS)


@task
def _multiply_bf16(job: Any) -> None:
    weights, rows, products = job[0], job[1], job[2]
    inputs, outputs, count, counter = job[3], job[4], job[5], job[7]
    blocks = outputs // _BLOCK
    while True:
        first = take_next(counter) * _TAKEN
        if first >= blocks:
            return
        for block in range(first, min(first + _TAKEN, blocks)):
            its_weights = weights + block * inputs * LINE
            its_products = products + block * _BLOCK * 4
            _multiply_block(its_weights, rows, its_products, inputs, outputs, count)
