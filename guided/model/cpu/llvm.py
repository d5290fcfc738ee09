"""Parts of kernels as instructions of LLVM, where numba would not emit the right vectors.

A register holds 16 numbers of 32 bits, its *lanes*; a line of the processor's caches has the same
64 bytes. All of this is emitted once, when a kernel is compiled: a Python loop that emits is
unrolled in the kernel, ``loop`` is a loop of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

__all__ = [
    "AHEAD",
    "DOUBLE",
    "FLOAT",
    "FLOATS",
    "INT32",
    "INT64",
    "INTS",
    "LANES",
    "LINE",
    "for_each_count",
    "loop",
    "multiply_add",
    "pointer",
    "prefetch",
    "splat",
]

LANES = 16
"""Numbers of 32 bits in a register."""
LINE = 64
"""Bytes in a register, and in a line of the processor's caches."""
AHEAD = 4096
"""Bytes to prefetch ahead: without, a call takes up to two thirds longer, and with a quarter as
many a tenth."""
INT32, INT64, FLOAT, DOUBLE = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
INTS, FLOATS = ir.VectorType(INT32, LANES), ir.VectorType(FLOAT, LANES)


def for_each_count(builder: Any, count: Any, most: int, emit: Callable[[int], None]) -> None:
    """Emit a case for each count from 1 to ``most`` rows; the kernel runs the one of ``count``."""
    end = builder.append_basic_block()
    switch = builder.switch(count, end)
    for rows in range(1, most + 1):
        case = builder.append_basic_block()
        switch.add_case(INT64(rows), case)
        builder.position_at_end(case)
        emit(rows)
        builder.branch(end)
    builder.position_at_end(end)


def loop(
    builder: Any, count: Any, carried: list[Any], body: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """Count from 0 to ``count``; the body maps the carried values to those of the next turn."""
    before = builder.block
    head, inside, end = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(INT64)
    values = [builder.phi(value.type) for value in carried]
    builder.cbranch(builder.icmp_signed("<", k, count), inside, end)
    builder.position_at_end(inside)
    nexts = body(k, values)
    after = builder.add(k, INT64(1))
    for phi, first, later in zip([k, *values], [INT64(0), *carried], [after, *nexts], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    builder.branch(head)
    builder.position_at_end(end)
    return values


def multiply_add(builder: Any, one: Any, other: Any, total: Any) -> Any:
    """Return ``one * other + total``, rounded once if the processor has one instruction for it."""
    kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
    function = builder.module.declare_intrinsic(f"llvm.fmuladd.v{LANES}f32", (), kind)
    return builder.call(function, [one, other, total])


def pointer(builder: Any, address: Any, kind: Any, place: Any = None) -> Any:
    """Return a pointer to an address, or to ``place`` numbers of 32 bits after it."""
    if place is not None:
        address = builder.add(address, builder.mul(place, INT64(4)))
    return builder.inttoptr(address, kind.as_pointer())


def prefetch(builder: Any, address: Any, *, level: int = 1) -> None:
    """Prefetch a line into the cache of a level, and those below."""
    place = pointer(builder, address, ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [place.type, INT32, INT32, INT32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
    builder.call(function, [place, INT32(0), INT32(4 - level), INT32(1)])  # to be read, data


def splat(builder: Any, number: Any, lanes: int = LANES) -> Any:
    """Return a vector of one number."""
    nothing = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, number, INT32(0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(INT32, lanes), [0] * lanes)
    )
