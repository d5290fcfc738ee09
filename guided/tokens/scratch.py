"""Memory that walks work in, one set a thread, so that no walk has to ask for it anew."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from guided.tokens.mask import Mask

__all__ = ["SCRATCH"]


class _Scratch(threading.local):
    """Arrays that are nobody's between two walks."""

    def __init__(self) -> None:
        self._stack: NDArray[np.int64] = np.empty((0, 6), dtype=np.int64)
        self._nodes: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._words: Mask = np.empty(0, dtype=np.int32)

    def stack(self, longest: int) -> NDArray[np.int64]:
        """int64 ``[longest + 3 or more, 6]``: rows of progress (two), of the root, of each byte."""
        if len(self._stack) < longest + 3:
            self._stack = np.empty((longest + 3, 6), dtype=np.int64)
        return self._stack

    def nodes(self, count: int) -> NDArray[np.int32]:
        """int32 ``[count or more]``."""
        if len(self._nodes) < count:
            self._nodes = np.empty(count, dtype=np.int32)
        return self._nodes

    def copied(self, mask: Mask) -> Mask:
        """A copy of the mask, to be changed."""
        if self._words.shape != mask.shape:
            self._words = np.empty_like(mask)
        np.copyto(self._words, mask)
        return self._words


SCRATCH = _Scratch()
