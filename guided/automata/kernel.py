"""How functions over arrays are compiled.

Without numba's reference counts (``_nrt``): no function here makes or keeps an array, and counting,
which is atomic, would take four fifths of the time of a walk. A function that does make an array
fails to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from guided.automata.kernel_cache import compile_again_with_sources

__all__ = ["inlined", "kernel"]

compile_again_with_sources()


def kernel(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a function that Python calls; it runs without the GIL, and is cached on disk."""
    return _compiled(function, nogil=True)


def inlined(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a part of kernels."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., object], **options: bool) -> Callable[..., Any]:
    compiled: Callable[..., Any] = njit(cache=True, _nrt=False, **options)(function)  # type: ignore[call-overload]
    return compiled
