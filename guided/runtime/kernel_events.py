"""Reports that a kernel is being compiled, for a user who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

__all__ = ["report_kernel_compiles"]

_COMPILING = "numba:compile"


class _Listener(event.Listener):
    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._num_kernels = 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - which kernel it is does not matter
        self._num_kernels += 1
        self._report(self._num_kernels)

    def on_end(self, event: Any) -> None:
        """Do nothing: the next kernel begins, or the work is done."""


@contextmanager
def report_kernel_compiles(report: Callable[[int], None]) -> Iterator[None]:
    """Call ``report`` before each kernel that the block compiles, with its number from 1 on.

    Kernels that are loaded from the disk are not reported, as nobody waits for them.
    """
    listener = _Listener(report)
    event.register(_COMPILING, listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister(_COMPILING, listener)  # type: ignore[no-untyped-call]
