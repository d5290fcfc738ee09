"""How functions over arrays are compiled.

Mostly without numba's reference counts (``_nrt``): such a function makes and keeps no array, or
fails to compile; counting, which is atomic, would take four fifths of the time of a walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import njit

from guided.runtime.kernel_cache import KernelCache, compile_again_with_sources

__all__ = ["inlined", "kernel", "making_kernel"]

compile_again_with_sources()


def kernel(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a function that Python calls; it runs without the GIL, and is cached on disk."""
    return _compiled(function, nogil=True)


def making_kernel(function: Callable[..., object]) -> Callable[..., Any]:
    """As ``kernel``, for a function that makes arrays; Python may call it, and others like it."""
    return _compiled(function, nogil=True, _nrt=True)


def inlined(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a part of kernels."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., object], **options: bool) -> Callable[..., Any]:
    compiled = njit(**{"_nrt": False} | options)(function)  # type: ignore[call-overload]
    compiled._cache = KernelCache(function)
    return cast("Callable[..., Any]", compiled)
