"""Learn that a kernel is being compiled, to tell somebody who waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

__all__ = ["telling_of_kernels"]

_COMPILING = "numba:compile"


class _Listener(event.Listener):
    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._begun = 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - which kernel it is does not matter
        self._begun += 1
        self._tell(self._begun)

    def on_end(self, event: Any) -> None:
        """Do nothing: the next kernel begins, or the work is done."""


@contextmanager
def telling_of_kernels(tell: Callable[[int], None]) -> Iterator[None]:
    """Call ``tell`` before each kernel that the block compiles, with its number from 1 on.

    Kernels that are loaded from the disk are not reported, as nobody waits for them.
    """
    listener = _Listener(tell)
    event.register(_COMPILING, listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister(_COMPILING, listener)  # type: ignore[no-untyped-call]
