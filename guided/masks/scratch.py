"""Memory that walks work in, one set a thread, so that no walk has to ask for it anew."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask import Mask
from guided.masks.steps import LARGE_SHARE, PATH_WIDTH
from guided.masks.trie import TokenTrie
from guided.runtime.addresses import addresses_of

__all__ = ["Scratch"]


class Scratch(threading.local):
    """Arrays for walks over one trie, that are nobody's between two walks."""

    def __init__(self, trie: TokenTrie) -> None:
        self.path: NDArray[np.int64] = np.empty((trie.longest + 3, PATH_WIDTH), dtype=np.int64)
        """Rows of progress (two), of the root, of each byte of a token."""
        self.words: Mask = np.empty(trie.words, dtype=np.int32)
        self.uncertain: NDArray[np.int32] = np.zeros((len(trie), 4), dtype=np.int32)
        """Sites to be walked once more is known."""
        self.put_off: NDArray[np.int64] = np.empty((LARGE_SHARE, 4), dtype=np.int64)
        """Nodes with a state each; none of them is below another, so there are not more."""
        self.addresses = addresses_of((self.path, self.words, self.uncertain, self.put_off))
