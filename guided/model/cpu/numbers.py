"""Single numbers inside kernels: bf16 and back, and an exponential that runs in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from guided.model.cpu.kernel import inlined, instruction

__all__ = ["exponential", "farthest", "largest", "narrowed", "widened"]

_INT32 = ir.IntType(32)
_FLOAT = ir.FloatType()


@instruction
def widened(_: Any, number: Any) -> Any:
    """A number of the cache as float32: float32 as it is, or bf16 given by its bits in uint16."""

    def emit(_: Any, builder: Any, __: Any, args: Any) -> Any:
        if number == types.float32:
            return args[0]
        bits = builder.shl(builder.zext(args[0], _INT32), _INT32(16))
        return builder.bitcast(bits, _FLOAT)

    return (types.float32(number), emit) if number in (types.float32, types.uint16) else None


@instruction
def narrowed(_: Any, number: Any, like: Any) -> Any:
    """A float32 as the cache keeps it, which is as it keeps ``like``; ties round to even."""

    def emit(_: Any, builder: Any, __: Any, args: Any) -> Any:
        if like == types.float32:
            return args[0]
        bits = builder.bitcast(args[0], _INT32)
        is_odd = builder.and_(builder.lshr(bits, _INT32(16)), _INT32(1))
        rounded = builder.add(bits, builder.add(is_odd, _INT32(0x7FFF)))
        return builder.trunc(builder.lshr(rounded, _INT32(16)), ir.IntType(16))

    known = number == types.float32 and like in (types.float32, types.uint16)
    return (like(number, like), emit) if known else None


def _mirrored(builder: Any, bits: Any) -> Any:
    """Turn the order of negative ones around, in the bits of floats; twice is nothing."""
    is_negative = builder.ashr(bits, _INT32(31))
    return builder.xor(bits, builder.and_(is_negative, _INT32(0x7FFFFFFF)))


@instruction
def _rank(_: Any, number: Any) -> Any:
    """An int32 for each float32, in the same order."""

    def emit(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return _mirrored(builder, builder.bitcast(args[0], _INT32))

    return (types.int32(number), emit) if number == types.float32 else None


@instruction
def _of_rank(_: Any, rank: Any) -> Any:
    """The float32 whose rank this is."""

    def emit(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(_mirrored(builder, args[0]), _FLOAT)

    return (types.float32(rank), emit) if rank == types.int32 else None


@inlined
def largest(numbers: Any) -> Any:
    """The largest of some float32, by rank: integers are compared in vectors, floats are not."""
    most = np.int32(-(2**31))
    for d in range(len(numbers)):
        most = max(most, _rank(numbers[d]))
    return _of_rank(most)


@inlined
def farthest(numbers: Any) -> Any:
    """The largest of some float32 without their signs, likewise."""
    most = np.int32(0)
    for d in range(len(numbers)):
        most = max(most, _rank(abs(numbers[d])))
    return _of_rank(most)


@instruction
def _power_of_two(_: Any, exponent: Any) -> Any:
    """``2 ** exponent`` for an int32 from -126 to 127, made of its bits."""

    def emit(_: Any, builder: Any, __: Any, args: Any) -> Any:
        bits = builder.shl(builder.add(args[0], _INT32(127)), _INT32(23))
        return builder.bitcast(bits, _FLOAT)

    return (types.float32(exponent), emit) if exponent == types.int32 else None


_LOG2_E = np.float32(1.4426950408889634)
_LEAST, _MOST = np.float32(-60), np.float32(88)
_ZERO = np.float32(0)
_HALF = np.float32(0.5)
# ln 2 in two parts: the first has few bits, so that its multiples are exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))
_ONE = np.float32(1)


@inlined
def exponential(x: Any) -> Any:
    """``e ** x`` in float32 within 5e-7 of itself; 0 below -60, before numbers get subnormal.

    ``e**x = 2**n * e**r`` with ``|r| <= ln(2) / 2``, where six terms of the series are enough. The
    library's function would be called number by number.
    """
    bounded = min(max(x, _LEAST), _MOST)
    whole = np.floor(bounded * _LOG2_E + _HALF)
    r = bounded - whole * _LN2_HIGH - whole * _LN2_LOW
    series = _C6
    for c in (_C5, _C4, _C3, _C2, _ONE, _ONE):
        series = series * r + c
    found = series * _power_of_two(np.int32(whole))
    return found if x > _LEAST else _ZERO
