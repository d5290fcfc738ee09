"""Arrays that grow, compiled by numba."""

from __future__ import annotations

import numpy as np

from guided.runtime.kernel import making_kernel

__all__ = ["longer"]


@making_kernel
def longer(array, room):  # type: ignore[no-untyped-def]
    """A copy with ``room`` for so many rows; the new ones hold anything."""
    copy = np.empty((room, *array.shape[1:]), dtype=array.dtype)
    copy[: len(array)] = array
    return copy
