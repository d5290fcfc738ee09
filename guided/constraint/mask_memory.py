"""Memory for masks that are kept, lent again when nobody has the mask any more."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Final
from weakref import ref

import numpy as np

from guided.tokens.mask import Mask

__all__ = ["MaskMemory"]

_SLAB_BYTES: Final = 16 * 2**20
"""What is asked of the system at once: enough for it to be given in large pages. A page is given
when it is first written to, which for small ones takes longer than the walk that fills a mask."""


class MaskMemory:
    """Room for masks of one length. One thread at a time may ask; any may give back."""

    def __init__(self, words: int) -> None:
        self._nbytes = words * np.dtype(np.int32).itemsize
        self._slab = memoryview(b"")
        self._free: list[memoryview] = []
        self._loans: dict[int, _Loan] = {}
        self._self = ref(self)

    def take(self) -> Mask:
        """A mask that holds anything; the room is its own until it and all views of it are gone."""
        room = self._free.pop() if self._free else self._cut()
        # Views of it refer to the array that is made here, and do not reach through to the slab.
        mask: Mask = np.frombuffer(room, dtype=np.int32)
        loan = _Loan(mask, _give_back)
        loan.room, loan.memory = room, self._self
        self._loans[id(loan)] = loan
        return mask

    @property
    def free(self) -> int:
        """Masks whose room was given back."""
        return len(self._free)

    def _cut(self) -> memoryview:
        if len(self._slab) < self._nbytes:
            self._slab = memoryview(_pages(max(_SLAB_BYTES, self._nbytes)))
        room, self._slab = self._slab[: self._nbytes], self._slab[self._nbytes :]
        return room

    def receive(self, loan: _Loan) -> None:
        """Take the room of a mask back that is gone."""
        del self._loans[id(loan)]
        self._free.append(loan.room)


def _pages(nbytes: int) -> mmap.mmap:
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A kernel without large pages refuses; small ones do as well.
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class _Loan(ref[Mask]):
    """A mask, and whose room it has."""

    __slots__ = ("memory", "room")
    room: memoryview
    memory: ref[MaskMemory]


def _give_back(loan: ref[Mask]) -> None:
    assert isinstance(loan, _Loan)
    memory = loan.memory()
    if memory is not None:
        memory.receive(loan)
