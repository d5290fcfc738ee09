"""Memory that masks are made in, one set a thread; what is in it is nobody's between two uses.

Never compiled: mypyc lays the fields of a class over those of ``threading.local``, so that all
threads have the same ones, and the interpreter takes them for what it keeps there itself.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask import Mask
from guided.masks.trie import TokenTrie
from guided.masks.walk_path import LARGE_SHARE, PATH_WIDTH
from guided.runtime.addresses import addresses_of

__all__ = ["IndependentScratch", "OutlineScratch", "Scratch"]


class Scratch(threading.local):
    """Memory that walks over one trie work in, one set a thread; nobody's between two walks."""

    def __init__(self, trie: TokenTrie) -> None:
        self.path: NDArray[np.int64] = np.empty((trie.longest + 3, PATH_WIDTH), dtype=np.int64)
        """See ``walk_kernels``."""
        self.words: Mask = np.empty(trie.words, dtype=np.int32)
        self.uncertain: NDArray[np.int32] = np.zeros((len(trie), 4), dtype=np.int32)
        """Sites to be walked once more is known."""
        self.put_off: NDArray[np.int64] = np.empty((LARGE_SHARE, 4), dtype=np.int64)
        """Nodes with a state each; none of them is below another, so there are not more."""
        self.addresses = addresses_of((self.path, self.words, self.uncertain, self.put_off))


class OutlineScratch(threading.local):
    """Memory that searches for outlines work in; the arguments of ``search_outline``."""

    def __init__(self, rows: int, maps: int) -> None:
        """For searches through so many rows, and so many maps of them."""
        self.found: NDArray[np.int32] = np.empty(rows * 259, dtype=np.int32)
        self.queue: NDArray[np.int32] = np.empty(rows, dtype=np.int32)
        self.closings: NDArray[np.int32] = np.empty(rows, dtype=np.int32)
        self.runs: NDArray[np.int32] = np.empty((maps, 258), dtype=np.int32)


class IndependentScratch(threading.local):
    """Memory that masks are made in."""

    def __init__(self) -> None:
        self._sites: NDArray[np.int32] = np.empty((0, 4), dtype=np.int32)
        self._reach: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)

    def of(self, trie: TokenTrie) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Room for sites, and for ``reach``, which is all zero and to be left so.

        The same memory for each call of a thread, for one mask after another.
        """
        if len(self._sites) < len(trie):
            self._sites = np.empty((len(trie), 4), dtype=np.int32)
        if len(self._reach) != trie.vocabulary_size:
            self._reach = np.zeros(trie.vocabulary_size, dtype=np.uint16)
        return self._sites, self._reach
