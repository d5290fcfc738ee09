"""Single numbers inside kernels: bf16, the largest of some, and an exponential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from guided.model.cpu.kernel import inlined, instruction

__all__ = ["exponential", "farthest", "narrow", "widen"]

_INT32 = ir.IntType(32)
_FLOAT = ir.FloatType()
_QUIET = 0x400000
"""The bit that all NaN of computations have, in the upper half of a float32."""


@instruction
def narrow(_: Any, number: Any, like: Any) -> Any:
    """Return a float32 as the cache keeps it, in the type of ``like``; ties round to even."""

    def emit(_: Any, builder: Any, __: Any, args: Any) -> Any:
        if like == types.float32:
            return args[0]
        bits = builder.bitcast(args[0], _INT32)
        is_odd = builder.and_(builder.lshr(bits, _INT32(16)), _INT32(1))
        rounded = builder.add(bits, builder.add(is_odd, _INT32(0x7FFF)))
        # Rounding could make of a NaN a zero, by a carry, or infinity, of its upper bits alone.
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        rounded = builder.select(is_nan, builder.or_(bits, _INT32(_QUIET)), rounded)
        return builder.trunc(builder.lshr(rounded, _INT32(16)), ir.IntType(16))

    known = number == types.float32 and like in (types.float32, types.uint16)
    return (like(number, like), emit) if known else None


def _on_bits(given: Any, made: Any, emit: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Make an instruction of one number of a type; ``emit`` gets the builder and the number."""

    def typed(_: Any, number: Any) -> Any:
        def emit_it(_: Any, builder: Any, __: Any, args: Any) -> Any:
            return emit(builder, args[0])

        return (made(number), emit_it) if number == given else None

    return instruction(typed)


def _widened(builder: Any, bits: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(bits, _INT32), _INT32(16)), _FLOAT)


def _without_sign(builder: Any, number: Any) -> Any:
    return builder.and_(builder.bitcast(number, _INT32), _INT32(0x7FFFFFFF))


def _as_exponent(builder: Any, exponent: Any) -> Any:
    return builder.bitcast(builder.shl(builder.add(exponent, _INT32(127)), _INT32(23)), _FLOAT)


widen = _on_bits(types.uint16, types.float32, _widened)
"""Returns the float32 equal to a bf16, given its bits."""
_magnitude = _on_bits(types.float32, types.int32, _without_sign)
"""Returns the bits of a float32 without its sign, an int32; they are in the numbers' order."""
_of_bits = _on_bits(types.int32, types.float32, lambda b, bits: b.bitcast(bits, _FLOAT))
"""Returns the float32 with these bits."""
_power_of_two = _on_bits(types.int32, types.float32, _as_exponent)
"""Returns ``2 ** exponent`` for an int32 from -126 to 127, made of its bits."""


@inlined
def farthest(numbers: Any) -> Any:
    """Return the largest of some float32 without their signs.

    It compares the bits, because integers are compared in vectors and floats are not.
    """
    most = np.int32(0)
    for d in range(len(numbers)):
        most = max(most, _magnitude(numbers[d]))
    return _of_bits(most)


_LOG2_E = np.float32(1.4426950408889634)
_LEAST, _MOST = np.float32(-60), np.float32(88)
_ZERO = np.float32(0)
_HALF = np.float32(0.5)
_LN2 = np.float32(np.log(2))
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))
_ONE = np.float32(1)


@inlined
def exponential(x: Any) -> Any:
    """Return ``e ** x`` in float32 within 5e-7 of itself, 5e-6 on a processor without fused
    multiply-add; 0 below -60, before numbers become subnormal, and of NaN.

    ``e**x = 2**n * e**r`` with ``|r| <= ln(2) / 2``, where six terms of the series are enough. The
    library's function would be called number by number.
    """
    bounded = min(max(x, _LEAST), _MOST)
    whole = np.floor(bounded * _LOG2_E + _HALF)
    r = bounded - whole * _LN2
    series = _C6
    for c in (_C5, _C4, _C3, _C2, _ONE, _ONE):
        series = series * r + c
    found = series * _power_of_two(np.int32(whole))
    return found if x > _LEAST else _ZERO
