"""Bits of numbers in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["lowest_bit"]


def _lowest_bit(_: Any, word: Any) -> Any:
    """In a kernel, return the place of the lowest bit that is set in a uint64 other than 0."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        is_undefined_for_zero = context.get_constant(types.boolean, True)
        return builder.cttz(values[0], is_undefined_for_zero)

    return types.uint64(word), generate


lowest_bit: Callable[..., Any] = intrinsic(_lowest_bit)
