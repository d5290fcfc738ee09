"""The part of a mask that lies inside one string, made once a process and shared by all schemas.

Inside a string nearly every token of the vocabulary may follow, and which ones does not depend on
what the string is part of. Only the tokens that go beyond its closing quote do: they are kept as
*sites*, the places in the trie where the quote was read, and tried in each stack anew. So a walk
over the whole trie is paid once for each outline of a row, and a new stack costs the sites alone.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from guided.masks.inner_kernels import (
    MAX_COUNT,
    correct_inside,
    goes_on,
    goes_on_as,
    keep_closing,
    keep_sites,
    keep_within,
    sorted_by_way,
    walk_inside,
)
from guided.masks.mask import Mask
from guided.masks.outline import MAX_WIDE, NO_HORIZON, Outline, moves_of
from guided.masks.outline_kernels import find_wide
from guided.masks.packed import Arrays
from guided.masks.trie import TokenTrie

__all__ = ["InnerMask", "InnerMasks"]

_MAX_MODELS: Final = 8
_MAX_MODEL_ROWS: Final = 32


class InnerMask:
    """What may follow a row without leaving its string, and where tokens leave it."""

    __slots__ = ("fingerprint", "mask", "most", "reach", "sites", "within")

    def __init__(
        self,
        mask: Mask,
        fingerprint: int,
        reach: NDArray[np.uint16],
        sites: NDArray[np.int32],
        most: int,
        within: dict[int, Mask] | None = None,
    ) -> None:
        self.mask: Final = mask
        self.fingerprint: Final = fingerprint
        """Tells the mask from others that masks are made from; see ``MaskStore``."""
        self.reach: Final = reach
        """Code points that a string has at least with each token; empty where all the same."""
        self.sites: Final = sites
        """As ``walk_sites`` takes them; rows are numbers among the closing rows of the outline."""
        self.most: Final = most
        """The greatest number of code points among tokens and sites."""
        self.within: Final[dict[int, Mask]] = {} if within is None else within
        """The mask by the code points that are left, made when first needed."""

    def at(self, sites: NDArray[np.int32]) -> InnerMask:
        """The same mask with other sites."""
        return InnerMask(self.mask, self.fingerprint, self.reach, sites, self.most)

    @property
    def nbytes(self) -> int:
        """Memory in bytes, all masks that may still be made counted in."""
        return self.mask.nbytes * (1 + self.most) + self.reach.nbytes + self.sites.nbytes

    def mask_within(self, left: int) -> tuple[Mask, int]:
        """The tokens with which a string has at most ``left`` more code points; not to be changed.

        ``left`` may be ``most`` or below. With the fingerprint.
        """
        if left >= self.most:
            return self.mask, self.fingerprint
        mask = self.within.get(left)
        if mask is None:
            mask = np.empty_like(self.mask)
            keep_within(self.mask, self.reach, left, mask)
            mask.flags.writeable = False
            # Not before it is filled: other threads take it from here, and kernels hold no lock.
            self.within[left] = mask
        return mask, self.fingerprint + left + 1


class InnerMasks:
    """The inner masks used last; safe to use from several threads."""

    def __init__(self, trie: TokenTrie, max_bytes: int) -> None:
        self.trie = trie
        self._masks: LRUCache[tuple[bytes, int], InnerMask] = LRUCache(
            max_bytes, lambda inner: inner.nbytes
        )
        nothing = np.zeros(trie.words, dtype=np.int32)
        nothing.flags.writeable = False
        self.nothing = InnerMask(
            nothing,
            0,
            np.empty(0, dtype=np.uint16),
            np.empty((0, 4), dtype=np.int32),
            0,
        )
        """No tokens, and no sites."""
        self._models: deque[_Model] = deque(maxlen=_MAX_MODELS)
        self._lock = threading.Lock()

    def get(
        self,
        arrays: Arrays,
        row: int,
        outline: Outline,
        node: int = 0,
        like: tuple[int, Outline] | None = None,
    ) -> InnerMask:
        """The inner mask of a row; only the tokens below ``node``, where the row stands.

        ``like`` is a row that most bytes lead to the same rows from, with its outline.
        """
        key = outline.digest, node
        with self._lock:
            inner = self._masks.get(key)
        if inner is None:
            inner, model = self._made(arrays, row, outline, node, like)
            with self._lock:
                if model is not None:
                    self._models.append(model)
                if inner.nbytes <= self._masks.maxsize:
                    self._masks[key] = inner
        return inner

    def _made(
        self,
        arrays: Arrays,
        row: int,
        outline: Outline,
        node: int,
        like: tuple[int, Outline] | None,
    ) -> tuple[InnerMask, _Model | None]:
        """The inner mask of a row, and a new model for others."""
        if outline.has_labels or node:
            corrected = None
            if like is not None and like[1].horizon == outline.horizon:
                base = self.get(arrays, *like, node)
                corrected = _corrected(self.trie, arrays, row, outline, node, base, *like)
            return corrected or _inner_mask(self.trie, arrays, row, outline, node), None
        if outline.horizon != NO_HORIZON:
            return _inner_mask(self.trie, arrays, row, outline, node), None
        with self._lock:
            models = [model for model in self._models if model.begins_like(arrays, row)]
        if models:
            moves = moves_of(arrays, row, self.trie.longest)
            for model in models:
                if model.has_like(moves):
                    return model.inner_mask(self.trie, moves), None
        inner = _inner_mask(self.trie, arrays, row, outline, node)
        if outline.num_rows > _MAX_MODEL_ROWS or not _is_rich(inner):
            return inner, None
        return inner, _Model(moves_of(arrays, row, self.trie.longest), inner)


class _Model:
    """A small string that allows much, with its inner mask.

    Patterns that may match anywhere allow the same for long, and differ in where the string ends.
    """

    __slots__ = ("inner", "moves")

    def __init__(self, moves: NDArray[np.int32], inner: InnerMask) -> None:
        self.moves = moves
        self.inner = inner

    def begins_like(self, arrays: Arrays, row: int) -> bool:
        """Whether the same bytes go on from a row as from the beginning of the model."""
        return bool(goes_on(*arrays[:3], row, self.moves[0]))

    def has_like(self, moves: NDArray[np.int32]) -> bool:
        """Whether a string of these moves goes on as the model does and ends only where it does."""
        size = len(moves) * len(self.moves)
        queue, seen = np.empty(size, dtype=np.int32), np.zeros(size, dtype=np.bool_)
        return bool(goes_on_as(moves, self.moves, queue, seen))

    def inner_mask(self, trie: TokenTrie, moves: NDArray[np.int32]) -> InnerMask:
        """The inner mask of a string that the model has the like of."""
        sites = self.inner.sites.copy()
        nodes, _, _, child_nodes = trie.arrays
        count = keep_closing(nodes, child_nodes, moves, sites)
        return self.inner.at(sites[:count].copy())


class _Scratch(threading.local):
    """Memory that inner masks are made in."""

    def __init__(self) -> None:
        self._sites: NDArray[np.int32] = np.empty((0, 4), dtype=np.int32)
        self._reach: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)

    def of(self, trie: TokenTrie) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Room for sites, and for ``reach``, which is all zero and to be left so."""
        if len(self._sites) < len(trie):
            self._sites = np.empty((len(trie), 4), dtype=np.int32)
        if len(self._reach) != trie.vocabulary_size:
            self._reach = np.zeros(trie.vocabulary_size, dtype=np.uint16)
        return self._sites, self._reach


_scratch: Final = _Scratch()


def _inner_mask(
    trie: TokenTrie, arrays: Arrays, row: int, outline: Outline, node: int
) -> InnerMask:
    mask = np.zeros(trie.words, dtype=np.int32)
    sites, reach = _scratch.of(trie)
    path = np.empty((trie.longest + 1, 3), dtype=np.int64)
    loops = np.zeros((len(arrays[0]), 3), dtype=np.uint64)
    if outline.horizon == NO_HORIZON:
        find_wide(*arrays[:3], row, np.empty(MAX_WIDE, dtype=np.int32), loops)
    num_sites, most = walk_inside(
        trie.nodes,
        trie.below,
        trie.token_ids,
        *arrays[:3],
        row,
        node,
        outline.horizon,
        path,
        loops,
        mask,
        reach,
        sites,
    )
    found = sorted_by_way(sites[:num_sites], arrays[0], outline.closings)
    kept = reach[:0].copy()
    if most:
        kept = reach.copy()
        reach.fill(0)
    return _finished(outline, node, mask, kept, found, min(most, MAX_COUNT))


def _corrected(
    trie: TokenTrie,
    arrays: Arrays,
    row: int,
    outline: Outline,
    node: int,
    base: InnerMask,
    other: int,
    other_outline: Outline,
) -> InnerMask | None:
    """The inner mask of a row out of that of the ``other`` one; ``None`` where rows count."""
    if base.most:
        return None
    mask = base.mask.copy()
    sites, _ = _scratch.of(trie)
    gone = np.empty((len(trie), 2), dtype=np.int32)
    path = np.empty((trie.longest + 1, 2), dtype=np.int64)
    num_sites, num_gone = correct_inside(
        trie.nodes,
        trie.token_ids,
        *arrays[:3],
        row,
        other,
        node,
        outline.horizon,
        path,
        mask,
        sites,
        gone,
    )
    if num_sites < 0:
        return None
    added = sorted_by_way(sites[:num_sites], arrays[0], outline.closings)
    num_kept = keep_sites(
        base.sites, gone[:num_gone], arrays[0], other_outline.closings, outline.closings, sites
    )
    together = np.concatenate([sites[:num_kept], added])
    return _finished(outline, node, mask, base.reach, together, 0)


def _finished(
    outline: Outline,
    node: int,
    mask: Mask,
    reach: NDArray[np.uint16],
    sites: NDArray[np.int32],
    most: int,
) -> InnerMask:
    mask.flags.writeable = False
    fingerprint = int.from_bytes(outline.digest[:8]) ^ node << 24
    return InnerMask(mask, fingerprint, reach, sites, most)


def _is_rich(inner: InnerMask) -> bool:
    """Whether an inner mask has half of the tokens or more."""
    return 2 * int(np.bitwise_count(inner.mask.view(np.uint32)).sum()) >= 32 * len(inner.mask)
