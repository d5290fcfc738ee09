"""A weight that multiplies rows: the one interface of all matrices, and their memory.

Whatever its format, a matrix is packed once, when a model is loaded, and then multiplies rows of
float32. ``guided.model.cpu.formats`` chooses the format's packer.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["LargePages", "Numbers", "PackedMatrix", "StackedMatrix"]

Numbers = NDArray[np.float32]

_CHUNK = 64 * 2**20
_LINE = 64


class PackedMatrix(Protocol):
    """A matrix ``[out, in]`` and a bias ``[out]``, in some format and layout of its own."""

    @property
    def nbytes(self) -> int:
        """Bytes of its weights."""
        ...

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``, a new array that may be written to."""
        ...


class StackedMatrix:
    """Matrices of several formats, one below the other."""

    def __init__(self, parts: Sequence[PackedMatrix]) -> None:
        self._parts = tuple(parts)
        self.nbytes = sum(part.nbytes for part in parts)

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        return np.concatenate([part.multiply(rows) for part in self._parts], axis=1)


class LargePages:
    """Memory that is read from one end to the other in every model call, piece by piece.

    In pages of 2 MiB, if the system grants them: with pages of 4 KiB a core reads a fifth less
    in the same time, because it has to look up five hundred times as many. Memory not yet handed
    out takes no space.
    """

    def __init__(self) -> None:
        self._rest: NDArray[np.uint8] = np.empty(0, np.uint8)

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return the next ``nbytes`` bytes, which start at a line of the processor's caches."""
        length = -(-nbytes // _LINE) * _LINE
        if length > len(self._rest):
            self._rest = _reserve(max(length, _CHUNK))
        taken, self._rest = self._rest[:nbytes], self._rest[length:]
        return taken


def _reserve(nbytes: int) -> NDArray[np.uint8]:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without them has small ones
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
