"""How functions over arrays are compiled by numba.

There are three decorators: ``kernel``, ``allocating_kernel`` and ``inlined``. They keep the
signature of a function, so that mypy checks kernels and their callers against the written types.
Numba does not read these types: it compiles a function again for each combination of argument types
that it is called with.

Most kernels are compiled without numba's reference counts (``_nrt``). Such a kernel must neither
make nor keep an array, or it fails to compile. Counting is atomic and would take four fifths of the
time of a walk over a vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

from guided.runtime.kernel_cache import KernelCache, install_cache_locators
from guided.runtime.processor import compile_for_named_processor

__all__ = ["allocating_kernel", "inlined", "kernel"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

install_cache_locators()
compile_for_named_processor()


def kernel(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Compile a function that Python calls; it runs without the GIL and is cached on disk."""
    return _compile(function, nogil=True)


def allocating_kernel(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Like ``kernel``, for a function that makes arrays; kernels like it may call it as well."""
    return _compile(function, nogil=True, _nrt=True)


def inlined(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Compile a part of kernels, which is copied to where it is called."""
    return _compile(function, forceinline=True)


def _compile(
    function: Callable[_Parameters, _Result], **options: bool
) -> Callable[_Parameters, _Result]:
    compiled = njit(**{"_nrt": False} | options)(function)  # type: ignore[call-overload]
    compiled._cache = KernelCache(function)
    return cast("Callable[_Parameters, _Result]", compiled)
