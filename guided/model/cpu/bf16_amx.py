"""Pairs of bf16 multiplied in the tiles of the processor (AMX).

A tile is a register of up to 16 lines of 64 bytes. One instruction multiplies a tile of 32 inputs
of up to 16 rows by a tile of the same inputs of 16 outputs, and adds the products to a tile of sums
in float32::

    x[0, k..k+31]     w[0, k] w[0, k+1]     | ... | w[15, k] w[15, k+1]        s[0, 0..15]
    x[1, k..k+31]     w[0, k+2] w[0, k+3]   | ...                              s[1, 0..15]
    ...               ...                                                      ...

The processor determines the order of its sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from guided.model.cpu.addresses import take_next
from guided.model.cpu.bf16_matrix import BLOCK, LINES, Bf16Kernel
from guided.model.cpu.kernel import emitted, task
from guided.model.cpu.llvm import INT64, LINE, for_each_count, loop, pointer, prefetch

__all__ = ["AMX"]

_PAIR = 2
"""Groups of rows that a block is multiplied by at once: two by two tiles of sums."""
_TAKEN = 3
"""Blocks that a thread takes at a time."""
_AHEAD = 2048
"""Bytes to prefetch into the second cache before they are needed."""
_SUMS, _ROWS, _WEIGHTS = 0, 4, 6
"""The first tiles of each kind."""
_BYTE = ir.IntType(8)


def _configs() -> NDArray[np.int64]:
    """Return the input of ``LDTILECFG`` by rows of a group: 64 bytes as int64 ``[LINES + 1, 8]``.

    From byte 16 on it has the bytes in a line of each tile, from 48 on the lines of each.
    """
    configs = np.zeros((LINES + 1, LINE), np.uint8)
    configs[:, 0] = 1
    configs[:, 16:32:2] = LINE
    configs[:, 48:56] = LINES
    configs[:, 48 : 48 + _WEIGHTS] = np.arange(LINES + 1)[:, None]
    return configs.view(np.int64)


@emitted
def _begin(builder: Any, config: Any) -> None:
    """Configure the tiles of this thread."""
    _tiles(builder, "ldtilecfg", pointer(builder, config, _BYTE))


@emitted
def _end(builder: Any) -> None:
    """Release the tiles, so that no switch to another thread has to save them."""
    _tiles(builder, "tilerelease")


@emitted
def _multiply_block(
    builder: Any,
    weights: Any,
    rows: Any,
    products: Any,
    depth: Any,
    lines: Any,
    outputs: Any,
    kind: Any,
) -> None:
    """Multiply one block by one or two groups of rows; ``kind`` is how many, plus 2 if the weights
    have been read just before."""

    def emit_kind(kind: int) -> None:
        groups, is_first = (kind, True) if kind <= _PAIR else (kind - _PAIR, False)
        _emit_products(builder, groups, is_first, weights, rows, products, depth, lines, outputs)

    for_each_count(builder, kind, 2 * _PAIR, emit_kind)


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
    """Emit the loop over the tiles of a block, with two tiles of sums for each group."""
    length = builder.mul(depth, INT64(LINE))  # bytes of a row
    of_group = builder.mul(length, lines)
    for total in range(2 * groups):
        _tiles(builder, "tilezero", _BYTE(_SUMS + total))

    def add_products(k: Any, _: list[Any]) -> list[Any]:
        for half in range(2):
            place = builder.add(weights, builder.mul(k, INT64(2 * LINES * LINE)))
            place = builder.add(place, INT64(half * LINES * LINE))
            for line in range(LINES if is_first else 0):
                prefetch(builder, builder.add(place, INT64(_AHEAD + line * LINE)), level=2)
            _load(builder, _WEIGHTS + half, place, INT64(LINE))
        for group in range(groups):
            place = builder.add(rows, builder.mul(of_group, INT64(group)))
            _load(builder, _ROWS + group, builder.add(place, builder.mul(k, INT64(LINE))), length)
            for half in range(2):
                tiles = _SUMS + 2 * group + half, _ROWS + group, _WEIGHTS + half
                _tiles(builder, "tdpbf16ps", *map(_BYTE, tiles))
        return []

    loop(builder, depth, [], add_products)
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
    """Emit an instruction on tiles."""
    kind = ir.FunctionType(ir.VoidType(), [arg.type for arg in args])
    builder.call(builder.module.declare_intrinsic(f"llvm.x86.{name}", (), kind), args)


@task
def _multiply_tiles(job: Any) -> None:
    """Multiply all groups of rows by blocks, until none is left; ``job`` is that of ``_start``."""
    weights, rows, products = job[0], job[1], job[2]
    depth, blocks, groups, lines, counter = job[3], job[4], job[5], job[6], job[8]
    outputs = blocks * BLOCK
    _begin(job[9])
    while True:
        first = take_next(counter) * _TAKEN
        if first >= blocks:
            break
        for block in range(first, min(first + _TAKEN, blocks)):
            its_weights = weights + block * depth * 2 * LINES * LINE
            for group in range(0, groups, _PAIR):
                its_rows = rows + group * depth * lines * LINE
                its_products = products + (group * lines * outputs + block * BLOCK) * 4
                kind = min(_PAIR, groups - group) + (_PAIR if group else 0)
                _multiply_block(its_weights, its_rows, its_products, depth, lines, outputs, kind)
    _end()


AMX = Bf16Kernel(_multiply_tiles, LINES, by_halves=True, configs=_configs())
