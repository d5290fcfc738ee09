"""The part of a mask that lies inside one string, made once a process and shared by all schemas.

Inside a string nearly every token of the vocabulary may follow, and which ones does not depend on
what the string is part of. Only the tokens that go beyond its closing quote do: they are kept as
*sites*, the places in the trie where the quote was read, and tried in each context anew. So a walk
over the whole trie is paid once for each outline of a row, and a new context costs the sites alone.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from guided.automata.kernel import inlined, kernel
from guided.recognizer.table import BASE, BEAT, DEAD, KIND, LABEL, NEED, NO_BEAT, TICK
from guided.tokens.mask import Mask
from guided.tokens.outline import Outline, is_closing, moves_of
from guided.tokens.packed import Arrays
from guided.tokens.steps import BY_LABEL
from guided.tokens.trie import BYTE, DEPTH, END, FIRST_CHILD, FIRST_TOKEN, TokenTrie

__all__ = ["InnerMask", "InnerMasks"]

_MAX_COUNT = 2**16 - 1
"""More code points than an automaton has states, and than tokens have on top of that."""
_MAX_WIDE = 512
_MAX_MODELS = 8
_MAX_MODEL_ROWS = 32
_PLAIN_BYTES = tuple(byte for byte in range(0x20, 0x7F) if byte not in b'"\\')
"""What mostly may follow in a string in any order."""
_PLAIN = tuple(
    np.uint64(sum(1 << (byte & 63) for byte in _PLAIN_BYTES if byte >> 6 == word))
    for word in range(2)
)
UNKNOWN, WIDE, DONE = np.uint64(0), np.uint64(1), np.uint64(2)
"""What is known of the loops of a row."""


@dataclass(frozen=True, slots=True, eq=False)
class InnerMask:
    """What may follow a row without leaving its string, and where tokens leave it."""

    mask: Mask
    fingerprint: int
    """Tells the mask from others that masks are made from; see ``MaskStore``."""
    reach: NDArray[np.uint16]
    """Code points that a string has at least with each token; empty where all the same."""
    sites: NDArray[np.int32]
    """As ``walk_sites`` takes them; rows are numbers among the closing rows of the outline."""
    most: int
    """The greatest number of code points among tokens and sites."""
    within: dict[int, Mask] = field(default_factory=dict)
    """The mask by the code points that are left, made when first needed."""

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
            _keep_within(self.mask, self.reach, left, mask)
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
            if like is not None:
                base = self.get(arrays, *like, node)
                corrected = _corrected(self.trie, arrays, row, outline, node, base, *like)
            return corrected or _inner_mask(self.trie, arrays, row, outline, node), None
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
        return bool(_goes_on(*arrays[:3], row, self.moves[0]))

    def has_like(self, moves: NDArray[np.int32]) -> bool:
        """Whether a string of these moves goes on as the model does and ends only where it does."""
        size = len(moves) * len(self.moves)
        queue, seen = np.empty(size, dtype=np.int32), np.zeros(size, dtype=np.bool_)
        return bool(_goes_on_as(moves, self.moves, queue, seen))

    def inner_mask(self, trie: TokenTrie, moves: NDArray[np.int32]) -> InnerMask:
        """The inner mask of a string that the model has the like of."""
        sites = self.inner.sites.copy()
        nodes, _, _, child_nodes = trie.arrays
        count = _keep_closing(nodes, child_nodes, moves, sites)
        return replace(self.inner, sites=sites[:count].copy())


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


_scratch = _Scratch()


def _inner_mask(
    trie: TokenTrie, arrays: Arrays, row: int, outline: Outline, node: int
) -> InnerMask:
    mask = np.zeros(trie.words, dtype=np.int32)
    sites, reach = _scratch.of(trie)
    stack = np.empty((trie.longest + 1, 3), dtype=np.int64)
    loops = np.zeros((len(arrays[0]), 3), dtype=np.uint64)
    _find_wide(*arrays[:3], row, np.empty(_MAX_WIDE, dtype=np.int32), loops)
    num_sites, most = _walk_inside(
        trie.nodes,
        trie.below,
        trie.token_ids,
        *arrays[:3],
        row,
        node,
        stack,
        loops,
        mask,
        reach,
        sites,
    )
    found = sites[:num_sites].copy()
    found[:, 3] = _ways(arrays, found[:, 3], outline.closings)
    kept = reach[:0].copy()
    if most:
        kept = reach.copy()
        reach.fill(0)
    return _finished(outline, node, mask, kept, found[:0], found, min(most, _MAX_COUNT))


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
    stack = np.empty((trie.longest + 1, 2), dtype=np.int64)
    num_sites, num_gone = _correct_inside(
        trie.nodes, trie.token_ids, *arrays[:3], row, other, node, stack, mask, sites, gone
    )
    if num_sites < 0:
        return None
    added = sites[:num_sites].copy()
    if num_sites:
        added[:, 3] = _ways(arrays, added[:, 3], outline.closings)
    num_kept = _keep_sites(
        base.sites, gone[:num_gone], arrays[0], other_outline.closings, outline.closings, sites
    )
    return _finished(outline, node, mask, base.reach, sites[:num_kept].copy(), added, 0)


def _finished(
    outline: Outline,
    node: int,
    mask: Mask,
    reach: NDArray[np.uint16],
    sites: NDArray[np.int32],
    added: NDArray[np.int32],
    most: int,
) -> InnerMask:
    """The inner mask with sites that were added to others."""
    mask.flags.writeable = False
    if len(added):
        # Those of one way come together, as a walk goes each way but once.
        sites = np.concatenate([sites, added[np.argsort(added[:, 3], kind="stable")]])
    fingerprint = int.from_bytes(outline.digest[:8]) ^ node << 24
    return InnerMask(mask, fingerprint, reach, sites, most)


def _ways(
    arrays: Arrays, left: NDArray[np.int32], closings: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The ways of sites, out of how ``_walk_inside`` says where they leave the block."""
    by_label = left < 0
    rows, bytes_ = np.divmod(-1 - left[by_label], 256)
    labels = arrays[0][:, LABEL]
    ways = np.empty_like(left)
    ways[by_label] = BY_LABEL - 256 * _places(labels[rows], labels[closings]) - bytes_
    ways[~by_label] = _places(left[~by_label], closings)
    return ways


def _places(values: NDArray[np.int32], among: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each value stands among others."""
    order = np.argsort(among, kind="stable")
    places: NDArray[np.int64] = order[np.searchsorted(among, values, sorter=order)]
    return places


def _is_rich(inner: InnerMask) -> bool:
    """Whether an inner mask has half of the tokens or more."""
    return 2 * int(np.bitwise_count(inner.mask.view(np.uint32)).sum()) >= 32 * len(inner.mask)


@kernel
def _keep_within(mask, reach, left, kept):  # type: ignore[no-untyped-def]
    """Write those tokens of a mask with which a string has at most ``left`` code points."""
    for word in range(len(mask)):
        bits = mask[word]
        if bits:
            for token in range(32 * word, min(32 * word + 32, len(reach))):
                if reach[token] > left:
                    bits &= ~(np.int32(1) << np.int32(token & 31))
        kept[word] = bits


@kernel
def _goes_on(rows, cells, byte_maps, row, moves):  # type: ignore[no-untyped-def]
    """Whether the same bytes as in a row of moves lead on inside of the string."""
    base, kind = rows[row, BASE], rows[row, KIND]
    for byte in range(256):
        target = cells[base + byte_maps[kind, byte]]
        goes_on = target != DEAD and not is_closing(rows, target)
        if goes_on != (moves[byte] > 0):
            return False
    return True


@kernel
def _goes_on_as(moves, model, queue, seen):  # type: ignore[no-untyped-def]
    """Whether all texts that do not end a string go on, and count, as in the model.

    See ``moves_of``. The string ends at most where the model does. ``queue`` and ``seen``, which is
    all false, have an entry for each pair of rows.
    """
    width = len(model)
    queue[0], seen[0] = 0, True
    done, count = 0, 1
    while done < count:
        row, like = divmod(queue[done], width)
        done += 1
        for byte in range(256):
            target, expected = moves[row, byte], model[like, byte]
            if target <= 0 and expected <= 0:
                if target < 0 and expected == 0:
                    return False
                continue
            if target <= 0 or expected <= 0:
                return False
            if moves[target - 1, 256] != model[expected - 1, 256]:
                return False
            if moves[target - 1, 257] != model[expected - 1, 257]:
                return False
            pair = (target - 1) * width + expected - 1
            if not seen[pair]:
                queue[count], seen[pair] = pair, True
                count += 1
    return True


@kernel
def _keep_closing(nodes, child_nodes, moves, sites):  # type: ignore[no-untyped-def]
    """Keep the sites where a string of these moves ends; returns how many there are."""
    kept = 0
    for site in range(len(sites)):
        node, at, target = 0, sites[site, 0], 1
        while node != at:
            # The last child that does not come behind the site is above it.
            low, high = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
            while high - low > 1:
                middle = (low + high) // 2
                if child_nodes[middle] <= at:
                    low = middle
                else:
                    high = middle
            node = child_nodes[low]
            target = moves[target - 1, nodes[node, BYTE]]
        if target < 0:
            sites[kept, 0], sites[kept, 1] = at, sites[site, 1]
            sites[kept, 2], sites[kept, 3] = sites[site, 2], -1 - target
            kept += 1
    return kept


@kernel
def _walk_inside(  # type: ignore[no-untyped-def]
    nodes, below, token_ids, rows, cells, byte_maps, row, top, stack, loops, words, reach, sites
):
    """Walk a string from ``row`` on, which stands at the node ``top``.

    Returns the number of sites and the greatest count.
    Of a site it says the row that is entered, or, as a negative number, the row with a label that
    is left and the byte that is read behind it.

    ``loops`` is as ``_find_wide`` leaves it; see ``_find_loops``. Where all bytes below a node may
    follow a row in any order, the tokens there are taken without looking at them.
    """
    # Columns of the stack: row, code points so far, code points that a string has at least.
    level = nodes[top, DEPTH]
    stack[level, 0], stack[level, 1], stack[level, 2] = row, 0, 0
    node, num_sites, most = top + 1, 0, 0
    while node < nodes[top, END]:
        level = nodes[node, DEPTH]
        current = stack[level - 1, 0]
        target = cells[rows[current, BASE] + byte_maps[rows[current, KIND], nodes[node, BYTE]]]
        if target == DEAD:
            if rows[current, LABEL] != DEAD:
                sites[num_sites, 0], sites[num_sites, 1], sites[num_sites, 2] = node, 0, 0
                sites[num_sites, 3] = -1 - 256 * current - nodes[node, BYTE]
                num_sites += 1
            node = nodes[node, END]
            continue
        count, least = stack[level - 1, 1], stack[level - 1, 2]
        if is_closing(rows, target):
            sites[num_sites, 0], sites[num_sites, 1] = node, count
            sites[num_sites, 2], sites[num_sites, 3] = least, target
            num_sites += 1
            node = nodes[node, END]
            continue
        if rows[target, BEAT] == TICK:
            count += 1
        if rows[target, BEAT] != NO_BEAT:
            least = max(least, count + rows[target, NEED])
            most = max(most, least)
        stack[level, 0], stack[level, 1], stack[level, 2] = target, count, least
        last = nodes[node, END]
        _allow(node, node + 1, least, nodes, token_ids, words, reach)
        node += 1
        if node == last:
            continue
        if loops[target, 2] != DONE:
            _find_loops(rows, cells, byte_maps, target, loops)
        if below[node - 1, 0] & ~loops[target, 0] or below[node - 1, 1] & ~loops[target, 1]:
            continue
        if rows[target, BEAT] != TICK:
            _allow(node, last, least, nodes, token_ids, words, reach)
            node = last
        while node < last:
            counted = count + nodes[node, DEPTH] - level + rows[target, NEED]
            most = max(most, counted)
            _allow(node, node + 1, max(least, counted), nodes, token_ids, words, reach)
            node += 1
    return num_sites, most


@kernel
def _correct_inside(  # type: ignore[no-untyped-def]
    nodes, token_ids, rows, cells, byte_maps, row, other, top, stack, words, sites, gone
):
    """Make the mask of ``row`` out of that of the ``other`` row, in ``words``, below a node.

    Where both lead to the same row, all below is the same and stays. Returns the number of new
    sites, which are as in ``_walk_inside``, -1 where rows count; and of the nodes below which, with
    themselves, no site of the other row stays: first and last but one, in order.
    """
    num_sites, num_gone = 0, 0
    level = nodes[top, DEPTH]
    stack[level, 0], stack[level, 1] = row, other
    node = top + 1
    while node < nodes[top, END]:
        level, byte, end = nodes[node, DEPTH], nodes[node, BYTE], nodes[node, END]
        row, other = stack[level - 1, 0], stack[level - 1, 1]
        target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
        there = DEAD
        if other != DEAD:
            there = cells[rows[other, BASE] + byte_maps[rows[other, KIND], byte]]
            if target == there and (target != DEAD or rows[row, LABEL] == rows[other, LABEL]):
                node = end
                continue
        stays = target != DEAD and not is_closing(rows, target)
        if there == DEAD or is_closing(rows, there) or not stays:
            if other != DEAD:
                gone[num_gone, 0], gone[num_gone, 1] = node, end
                num_gone += 1
                for index in range(nodes[node, FIRST_TOKEN], nodes[end, FIRST_TOKEN]):
                    token = token_ids[index]
                    words[token >> 5] &= ~(np.int32(1) << np.int32(token & 31))
            there = DEAD
        if not stays:
            if target != DEAD:
                sites[num_sites, 3] = target
            elif rows[row, LABEL] != DEAD:
                sites[num_sites, 3] = -1 - 256 * row - byte
            if target != DEAD or rows[row, LABEL] != DEAD:
                sites[num_sites, 0], sites[num_sites, 1], sites[num_sites, 2] = node, 0, 0
                num_sites += 1
            node = end
            continue
        if rows[target, BEAT] != NO_BEAT:
            return -1, 0
        stack[level, 0], stack[level, 1] = target, there
        for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
            token = token_ids[index]
            words[token >> 5] |= np.int32(1) << np.int32(token & 31)
        node += 1
    return num_sites, num_gone


@kernel
def _keep_sites(sites, gone, rows, before, after, kept):  # type: ignore[no-untyped-def]
    """Keep the sites that are below no node that is ``gone``; returns how many there are.

    Closing rows have their numbers in ``before``, and get those in ``after``, which has them all.
    """
    num_kept, way, renamed = 0, 0, 0
    for site in range(len(sites)):
        node = sites[site, 0]
        place = np.searchsorted(gone[:, 0], node, side="right") - 1
        if place >= 0 and node < gone[place, 1]:
            continue
        if num_kept == 0 or sites[site, 3] != way:
            way = renamed = sites[site, 3]
            for number in range(len(after)):
                if way >= 0 and after[number] == before[way]:
                    renamed = number
                elif way <= BY_LABEL:
                    left = before[(BY_LABEL - way) >> 8]
                    if rows[after[number], LABEL] == rows[left, LABEL]:
                        renamed = BY_LABEL - 256 * number - ((BY_LABEL - way) & 255)
        kept[num_kept, 0], kept[num_kept, 1] = node, sites[site, 1]
        kept[num_kept, 2], kept[num_kept, 3] = sites[site, 2], renamed
        num_kept += 1
    return num_kept


@inlined
def _allow(first, last, least, nodes, token_ids, words, reach):  # type: ignore[no-untyped-def]
    """Set the bits of the tokens of some nodes, behind which a string has ``least`` code points."""
    for index in range(nodes[first, FIRST_TOKEN], nodes[last, FIRST_TOKEN]):
        token = token_ids[index]
        words[token >> 5] |= 1 << (token & 31)
        if least:
            reach[token] = min(least, _MAX_COUNT)


@inlined
def _find_loops(rows, cells, byte_maps, row, loops):  # type: ignore[no-untyped-def]
    """Fill in the ASCII bytes that may follow a row in any order, and a one for done.

    Those that lead to the row itself; for wide rows all plain bytes, unless it is fewer.
    """
    is_wide = loops[row, 2] == WIDE
    loops[row, 2] = DONE
    if rows[row, BEAT] != NO_BEAT and rows[row, BEAT] != TICK:
        return
    for byte in range(1, 128):
        if cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]] == row:
            loops[row, byte >> 6] |= np.uint64(1) << np.uint64(byte & 63)
    if is_wide and (_PLAIN[0] & ~loops[row, 0] or _PLAIN[1] & ~loops[row, 1]):
        loops[row, 0], loops[row, 1] = _PLAIN


@kernel
def _find_wide(rows, cells, byte_maps, row, queue, loops):  # type: ignore[no-untyped-def]
    """Mark the wide rows that plain bytes lead to: from which plain bytes lead to wide rows only.

    Such are the rows of a pattern that may match anywhere: its text may go on as it likes. Only
    rows that count nothing are wide.
    """
    if rows[row, BEAT] != NO_BEAT:
        return
    queue[0], loops[row, 2] = row, WIDE
    done, count = 0, 1
    while done < count:
        base, kind = rows[queue[done], BASE], rows[queue[done], KIND]
        for byte in _PLAIN_BYTES:
            target = cells[base + byte_maps[kind, byte]]
            if target == DEAD or rows[target, BEAT] != NO_BEAT or is_closing(rows, target):
                continue
            if loops[target, 2] != WIDE and count < len(queue):
                queue[count], loops[target, 2] = target, WIDE
                count += 1
        done += 1
    narrowed = True
    while narrowed:
        narrowed = False
        for index in range(count - 1, -1, -1):
            current = queue[index]
            if loops[current, 2] != WIDE:
                continue
            base, kind = rows[current, BASE], rows[current, KIND]
            for byte in _PLAIN_BYTES:
                target = cells[base + byte_maps[kind, byte]]
                if target == DEAD or loops[target, 2] != WIDE:
                    loops[current, 2] = UNKNOWN
                    narrowed = True
                    break
