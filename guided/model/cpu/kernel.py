"""How functions over arrays of floats are compiled.

As in ``guided.runtime.kernel`` no references are counted, so no kernel makes an array. Sums may be
taken in any order, so that a loop can run sixteen numbers at a time; the order is fixed when a
kernel is compiled, so a row's result is the same whatever rows stand beside it. NaN propagates, and
is detected in the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, cast

from numba import cfunc, njit, types
from numba.extending import intrinsic

from guided.runtime.kernel_cache import install_cache_locators
from guided.runtime.processor import compile_for_named_processor

__all__ = [
    "Task",
    "emitted",
    "exact_inlined",
    "exact_kernel",
    "exact_task",
    "inlined",
    "instruction",
    "kernel",
    "task",
    "with_constants",
]

install_cache_locators()
compile_for_named_processor()

_LIBERTIES = {"arcp", "contract", "nsz", "reassoc"}
"""What LLVM may change in the order and the rounding of float32; it may not rule out NaN."""


def kernel(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a function that Python calls; it runs without the GIL, and is cached on disk."""
    return _compile(function, nogil=True)


def exact_kernel(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile as ``kernel`` does a function whose result must be exact to the last bit."""
    return _compile(function, nogil=True, fastmath=False)


class Task:
    """A function that the threads of a team call with the address of a job, which is integers."""

    def __init__(self, function: Callable[..., object], liberties: set[str]) -> None:
        self._function, self._liberties = function, liberties

    @cached_property
    def address(self) -> int:
        """The address; the first use compiles, because a processor may lack the instructions."""
        signature = types.void(types.CPointer(types.int64))  # type: ignore[no-untyped-call]
        self._compiled = cfunc(  # type: ignore[call-arg]
            signature, cache=True, _nrt=False, fastmath=self._liberties, error_model="numpy"
        )(self._function)
        return cast("int", self._compiled.address)


def task(function: Callable[..., object]) -> Task:
    """Make a task whose sums may be taken in any order."""
    return Task(function, _LIBERTIES)


def exact_task(function: Callable[..., object]) -> Task:
    """Make a task whose result must be exact to the last bit."""
    return Task(function, set())


def inlined(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a part of kernels."""
    return _compile(function, forceinline=True)


def exact_inlined(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a part of kernels that is exact to the last bit; parts do not take over from kernels
    what LLVM may change.
    """
    return _compile(function, forceinline=True, fastmath=False)


def instruction(function: Callable[..., object]) -> Callable[..., Any]:
    """Compile a part of kernels that emits its LLVM itself, by the types of its arguments."""
    made: Callable[..., Any] = intrinsic(function)
    return made


def with_constants(function: Callable[..., object]) -> Callable[..., Any]:
    """Do as ``instruction`` does; arguments that are constant where it is used stay constant."""
    made: Callable[..., Any] = intrinsic(prefer_literal=True)(function)
    return made


def emitted(function: Callable[..., None]) -> Callable[..., Any]:
    """Compile a part of kernels that emits its LLVM itself and returns nothing.

    It is called with the builder, and with the values of its arguments.
    """

    @wraps(function)  # by whose signature numba binds the arguments
    def typed(_: Any, *kinds: Any) -> Any:
        def emit(context: Any, builder: Any, __: Any, values: Any) -> Any:
            function(builder, *values)
            return context.get_dummy_value()

        return types.void(*kinds), emit

    return instruction(typed)


def _compile(function: Callable[..., object], **options: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any] = njit(  # type: ignore[call-overload]
        **{"cache": True, "_nrt": False, "fastmath": _LIBERTIES, "error_model": "numpy"} | options
    )(function)
    return compiled
