"""Products of any rows with a matrix of bf16, in the tiles of the processor (AMX).

A tile is a register of up to 16 lines of 64 bytes. One instruction multiplies a tile of 32 inputs
of up to 16 rows by a tile of the same inputs of 16 outputs, and adds what comes out to a tile of
sums in float32::

    x[0, k..k+31]     w[0, k] w[0, k+1]     | ... | w[15, k] w[15, k+1]        s[0, 0..15]
    x[1, k..k+31]     w[0, k+2] w[0, k+3]   | ...                              s[1, 0..15]
    ...               ...                                                      ...

A matrix lies in blocks of 32 outputs, each from its first input to its last, so that memory is read
from one end to the other; up to 16 rows that is what takes the time.

Rows are rounded to bf16; products stay as their sums are, in float32. A sum belongs to one row, and
is taken in an order that the processor lays down, so a product is the same to the last bit whatever
rows stand beside it and however many.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import floats, halves, take_next
from guided.model.cpu.kernel import instruction, kernel, task
from guided.model.cpu.large_pages import LargePages
from guided.model.cpu.linear import Numbers
from guided.model.cpu.numbers import narrowed
from guided.model.cpu.rowwise import Rowwise
from guided.model.cpu.team import run_together, team_address, team_size
from guided.model.cpu.vectors import (
    INT64,
    LINE,
    for_each_count,
    pointer,
    prefetch,
)

__all__ = ["TiledLinear", "can_tile"]

_LINES = 16
_INPUTS = 32
"""Of a row in a tile."""
_BLOCK = 32
"""Outputs, two tiles."""
_PAIR = 2
"""Groups of rows that a block is multiplied by at once: two by two tiles of sums."""
_TAKEN = 3
"""Blocks that a thread takes at a time."""
_AHEAD = 2048
"""Bytes that are asked for, into the second cache, before they are needed."""
_SUMS, _ROWS, _WEIGHTS = 0, 4, 6
"""The first tiles of each kind."""
_CONFIG = 10
"""Where in a job it stands how tiles are configured."""
_BYTE = ir.IntType(8)
_BF16 = np.uint16(0)


@cache
def can_tile() -> bool:
    """Whether this processor has tiles for bf16, and the system lets this process use them."""
    has_them = bool(torch.cpu.get_capabilities().get("amx_bf16"))
    return has_them and bool(torch.cpu._init_amx())


class TiledLinear:
    """Weights and rows as bf16, products in float32."""

    __slots__ = ("_bias", "_inputs", "_job", "_outputs", "_weights", "nbytes")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, memory: LargePages) -> None:
        assert can_tile(), "this process has no tiles"
        self._outputs, self._inputs = weight.shape
        blocks, depth = -(-self._outputs // _BLOCK), -(-self._inputs // _INPUTS)
        plain = np.zeros((blocks * _BLOCK, depth * _INPUTS), np.uint16)
        plain[: self._outputs, : self._inputs] = (
            weight.to(torch.bfloat16).contiguous().view(torch.uint16).numpy()
        )
        self._weights = memory.take(plain.nbytes)
        split = plain.reshape(blocks, 2, _LINES, depth, _LINES, 2)
        laid_out = self._weights.view(np.uint16).reshape(blocks, depth, 2, _LINES, _LINES, 2)
        laid_out[:] = split.transpose(0, 3, 1, 4, 2, 5)
        self._bias = None if bias is None else bias.float().numpy().copy()
        self._job = np.zeros(_CONFIG + LINE // 8, np.int64)
        self._job[[0, 3, 4]] = self._weights.ctypes.data, depth, blocks
        config = self._job[_CONFIG:].view(np.uint8)
        config[0] = 1  # as ``LDTILECFG`` reads it: bytes in a line of a tile, and lines
        config[16:32:2] = LINE
        config[48:56] = _LINES
        self.nbytes = plain.nbytes

    def __call__(self, rows: Numbers) -> Numbers:
        """``[tokens, in]`` → ``[tokens, out]``."""
        count = len(rows)
        if not count:
            return np.empty((0, self._outputs), np.float32)
        depth, blocks = int(self._job[3]), int(self._job[4])
        groups = -(-count // _LINES)
        lines = -(-count // groups)  # of a group, so that groups are filled alike
        rounded = np.zeros((groups * lines, depth * _INPUTS), np.uint16)
        products = np.empty((groups * lines, blocks * _BLOCK), np.float32)
        _round(rows, rounded)
        job = self._job.copy()  # of this call alone: others may multiply at the same time
        job[_CONFIG:].view(np.uint8)[48 : 48 + _WEIGHTS] = lines
        team, function = team_address(), _multiply_tiles.address
        _start(job, rounded, products, lines, team, function, team_size())
        found = np.ascontiguousarray(products[:count, : self._outputs])
        if self._bias is not None:
            found += self._bias
        return found


@task
def _round_rows(job: Any) -> None:
    """Rows as bf16; those of the target may be longer."""
    while True:
        row = take_next(job[5])
        if row >= job[4]:
            return
        source, target = floats(job[0] + row * job[2] * 4), halves(job[1] + row * job[3] * 2)
        for d in range(job[2]):
            target[d] = narrowed(source[d], _BF16)


_round = Rowwise(_round_rows)


@kernel
def _start(
    job: Any, rounded: Any, products: Any, lines: Any, team: Any, function: Any, threads: Any
) -> None:
    """``job``: addresses of weights, rows, products; tiles in a row, blocks, groups, lines of each;
    a counter and its address; the address of how tiles are configured, which stands behind it."""
    job[1], job[2] = rounded.ctypes.data, products.ctypes.data
    job[5], job[6], job[7] = len(rounded) // lines, lines, 0
    job[8], job[9] = job.ctypes.data + 7 * 8, job.ctypes.data + _CONFIG * 8
    run_together(team, function, job.ctypes.data, threads)


@instruction
def _begin(_: Any, config: Any) -> Any:
    """Give this thread tiles."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        _tiles(builder, "ldtilecfg", pointer(builder, args[0], _BYTE))
        return context.get_dummy_value()

    return types.void(config), emit


@instruction
def _end(_: Any) -> Any:
    """Take them away again, so that nobody has to save them."""

    def emit(context: Any, builder: Any, __: Any, ___: Any) -> Any:
        _tiles(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), emit


@instruction
def _multiply_block(
    _: Any, weights: Any, rows: Any, products: Any, depth: Any, lines: Any, outputs: Any, kind: Any
) -> Any:
    """One block times one or two groups of rows; ``kind`` is how many, and 2 more where the weights
    have been read just before."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        *operands, its_kind = args

        def emit_kind(kind: int) -> None:
            groups, is_first = (kind, True) if kind <= _PAIR else (kind - _PAIR, False)
            _emit_products(builder, groups, is_first, *operands)

        for_each_count(builder, its_kind, 2 * _PAIR, emit_kind)
        return context.get_dummy_value()

    return types.void(weights, rows, products, depth, lines, outputs, kind), emit


def _emit_products(
    builder: Any,
    groups: int,
    is_first: bool,
    weights: Any,
    rows: Any,
    products: Any,
    depth: Any,
    lines: Any,
    outputs: Any,
) -> None:
    """From tile to tile of a block, with two tiles of sums for each group."""
    length = builder.mul(depth, INT64(LINE))  # of a row, in bytes
    of_group = builder.mul(length, lines)
    for total in range(2 * groups):
        _tiles(builder, "tilezero", _BYTE(_SUMS + total))
    before = builder.block
    loop, behind = builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(INT64)
    for half in range(2):
        place = builder.add(weights, builder.mul(k, INT64(2 * _LINES * LINE)))
        place = builder.add(place, INT64(half * _LINES * LINE))
        for line in range(_LINES if is_first else 0):
            prefetch(builder, builder.add(place, INT64(_AHEAD + line * LINE)), level=2)
        _load(builder, _WEIGHTS + half, place, INT64(LINE))
    for group in range(groups):
        place = builder.add(rows, builder.mul(of_group, INT64(group)))
        _load(builder, _ROWS + group, builder.add(place, builder.mul(k, INT64(LINE))), length)
        for half in range(2):
            tiles = _SUMS + 2 * group + half, _ROWS + group, _WEIGHTS + half
            _tiles(builder, "tdpbf16ps", *map(_BYTE, tiles))
    after = builder.add(k, INT64(1))
    builder.cbranch(builder.icmp_signed("<", after, depth), loop, behind)
    k.add_incoming(INT64(0), before)
    k.add_incoming(after, loop)
    builder.position_at_end(behind)
    stride = builder.mul(outputs, INT64(4))
    for group in range(groups):
        first = builder.mul(builder.mul(lines, stride), INT64(group))
        for half in range(2):
            place = builder.add(products, builder.add(first, INT64(half * LINE)))
            to = pointer(builder, place, _BYTE)
            _tiles(builder, "tilestored64", _BYTE(_SUMS + 2 * group + half), to, stride)


def _load(builder: Any, tile: int, place: Any, stride: Any) -> None:
    _tiles(builder, "tileloadd64", _BYTE(tile), pointer(builder, place, _BYTE), stride)


def _tiles(builder: Any, name: str, *args: Any) -> None:
    """An instruction on tiles."""
    kind = ir.FunctionType(ir.VoidType(), [arg.type for arg in args])
    builder.call(builder.module.declare_intrinsic(f"llvm.x86.{name}", (), kind), args)


@task
def _multiply_tiles(job: Any) -> None:
    weights, rows, products = job[0], job[1], job[2]
    depth, blocks, groups, lines, counter = job[3], job[4], job[5], job[6], job[8]
    outputs = blocks * _BLOCK
    _begin(job[9])
    while True:
        first = take_next(counter) * _TAKEN
        if first >= blocks:
            break
        for block in range(first, min(first + _TAKEN, blocks)):
            its_weights = weights + block * depth * 2 * _LINES * LINE
            for group in range(0, groups, _PAIR):
                its_rows = rows + group * depth * lines * LINE
                its_products = products + (group * lines * outputs + block * _BLOCK) * 4
                kind = min(_PAIR, groups - group) + (_PAIR if group else 0)
                _multiply_block(its_weights, its_rows, its_products, depth, lines, outputs, kind)
    _end()
