"""Context-independent masks: the part of a mask inside one string, shared by all schemas.

Inside a string nearly every token of the vocabulary may follow, and which ones does not depend on
what the string is part of. Only tokens that reach beyond its closing quote do depend on it: they
are kept as *sites*, the nodes of the trie at which the quote was read, and tried again in each
stack. So each outline of a row costs a walk over the whole trie once, and a new stack costs the
sites alone.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from guided.masks.independent_kernels import MAX_COUNT, keep_within, sort_by_entry, walk_inside
from guided.masks.machine_kernels import MachineArrays
from guided.masks.mask import Mask
from guided.masks.outline import Outline
from guided.masks.trie import TokenTrie
from guided.masks.walk_path import SITE_WIDTH

__all__ = ["IndependentMask", "IndependentMasks"]


class IndependentMask(NamedTuple):
    """What may follow a row without leaving its string, and where tokens leave it."""

    mask: Mask
    """Read-only: finished masks are kept as changes of it."""
    min_counts: NDArray[np.uint16]
    """uint16 by token: the least number of code points of a string with it; empty if always 0."""
    sites: NDArray[np.int32]
    """int32 ``[sites, 4]``, as ``walk_sites`` takes them: node, count, least and entry, sorted
    by entry. Entries are indices into the outline's ``closing_rows``, or BY_ACTION with one."""
    max_count: int
    """The greatest of ``min_counts``: with as many code points left, no token is too long."""
    by_left: dict[int, Mask]
    """The mask by the code points that are left, each made when first needed."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes, including all masks that may still be made."""
        return self.mask.nbytes * (1 + self.max_count) + self.min_counts.nbytes + self.sites.nbytes

    def mask_within(self, left: int) -> Mask:
        """Return the tokens that add at most ``left`` code points to a string.

        The mask must not be changed. A ``left`` of ``max_count`` or above excludes no token.
        """
        if left >= self.max_count:
            return self.mask
        mask = self.by_left.get(left)
        if mask is None:
            mask = np.empty_like(self.mask)
            keep_within(self.mask, self.min_counts, left, mask)
            mask.flags.writeable = False
            # Only once it is filled: other threads take it from here, and kernels hold no lock.
            self.by_left[left] = mask
        return mask


class IndependentMasks:
    """The most recently used context-independent masks; safe to use from several threads."""

    def __init__(self, trie: TokenTrie, max_bytes: int) -> None:
        """``max_bytes`` bounds the masks that are kept, by their ``nbytes``."""
        self.trie = trie
        self._masks: LRUCache[tuple[bytes, int], IndependentMask] = LRUCache(
            max_bytes, lambda mask: mask.nbytes
        )
        nothing = np.zeros(trie.words, dtype=np.int32)
        nothing.flags.writeable = False
        self.nothing = IndependentMask(
            nothing,
            np.empty(0, dtype=np.uint16),
            np.empty((0, SITE_WIDTH), dtype=np.int32),
            0,
            {},
        )
        """No tokens, and no sites: for walks without a context-independent mask."""
        self._lock = threading.Lock()
        """Guards ``_masks``."""

    def get(
        self, arrays: MachineArrays, row: int, outline: Outline, node: int = 0
    ) -> IndependentMask:
        """Return the mask of a row at ``node`` of the trie, for the tokens below that node only.

        ``outline`` must be that of the row: rows with equal outlines share their mask, so ``row``
        and ``arrays`` are read only when it is made. A mask that is too large for the cache is
        returned all the same, and made again next time.
        """
        key = outline.digest, node
        with self._lock:
            mask = self._masks.get(key)
        if mask is None:
            # Without the lock: two threads may make the same mask, and either is as good.
            mask = _make_mask(self.trie, arrays, row, outline, node)
            with self._lock:
                if mask.nbytes <= self._masks.maxsize:
                    self._masks[key] = mask
        return mask


def _make_mask(
    trie: TokenTrie, arrays: MachineArrays, row: int, outline: Outline, node: int
) -> IndependentMask:
    """Make the mask of a row; see ``walk_inside``."""
    mask = np.zeros(trie.words, dtype=np.int32)
    min_counts = np.zeros(trie.vocabulary_size, dtype=np.uint16)
    sites = np.empty((len(trie), SITE_WIDTH), dtype=np.int32)
    path = np.empty((trie.longest + 1, 5), dtype=np.int64)
    num_sites, max_count = walk_inside(
        trie.arrays,
        arrays,
        row,
        node,
        outline.horizon,
        path,
        mask,
        min_counts,
        sites,
    )
    sorted_sites = sort_by_entry(sites[:num_sites], arrays.rows, outline.closing_rows)
    if not max_count:
        min_counts = np.empty(0, dtype=np.uint16)
    mask.flags.writeable = False
    return IndependentMask(mask, min_counts, sorted_sites, min(max_count, MAX_COUNT), {})
