"""The tokens of a vocabulary as one trie, flattened depth first.

Node 0 is the root. The tokens ``a``, ``ab`` and ``b`` are::

    node   0      1 a    2 ab   3 b    4
    END    4      3      3      4             the nodes below node i are i + 1 up to END
    DEPTH  0      1      2      1
    token_ids     a      ab     b             of node i from its FIRST_TOKEN to that of node i + 1
    child_nodes   1 3    2                    of node i from its FIRST_CHILD to that of node i + 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import kernel

__all__ = [
    "BYTE",
    "DEPTH",
    "END",
    "FIRST_CHILD",
    "FIRST_TOKEN",
    "NODE_WIDTH",
    "TokenTrie",
    "TrieArrays",
    "trie_from_tokens",
]

END: Final = 0
DEPTH: Final = 1
BYTE: Final = 2
FIRST_TOKEN: Final = 3
FIRST_CHILD: Final = 4
NODE_WIDTH: Final = 5
"""Columns of ``TokenTrie.nodes``, and their number."""
_NOWHERE: Final = -1


class TrieArrays(NamedTuple):
    """What compiled code reads of a ``TokenTrie``."""

    nodes: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    child_bytes: NDArray[np.uint8]
    child_nodes: NDArray[np.int32]
    bytes_below: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class TokenTrie:
    """Node 0 is the root; the nodes below node ``i`` are ``i + 1`` up to its END, exclusive.

    ``nodes`` is int32 ``[nodes + 1, 5]``, one row per node and one to close the last. The tokens
    spelled by node ``i`` are ``token_ids`` from its FIRST_TOKEN to that of node ``i + 1``: several
    if a vocabulary contains the same bytes twice. In the same way FIRST_CHILD locates its children
    in ``child_bytes`` and ``child_nodes``, which are separate since most children are passed over.
    """

    nodes: NDArray[np.int32]
    bytes_below: NDArray[np.uint64]
    """uint64 ``[nodes, 2]``: the bytes below a node, one bit for each ASCII byte; the lowest bit
    stands for NUL and all others."""
    token_ids: NDArray[np.int32]
    child_bytes: NDArray[np.uint8]
    child_nodes: NDArray[np.int32]
    vocabulary_size: int
    longest: int
    """Bytes of the longest token."""

    def __len__(self) -> int:
        return len(self.nodes) - 1

    @property
    def words(self) -> int:
        """Length of a packed mask in words of 32 bits."""
        return (self.vocabulary_size + 31) // 32

    @property
    def arrays(self) -> TrieArrays:
        """What compiled code reads."""
        return TrieArrays(
            self.nodes, self.token_ids, self.child_bytes, self.child_nodes, self.bytes_below
        )

    def find(self, text: bytes) -> int | None:
        """Return the node that spells ``text``, ``None`` if no token begins so."""
        node = int(_find(self.arrays, np.frombuffer(text, dtype=np.uint8)))
        return None if node == _NOWHERE else node

    def find_partial_tokens(self, text: bytes) -> list[tuple[int, int]]:
        """Return the places in a text where a token may begin that is longer than the rest of it.

        Returns pairs of the place and the node that spells the rest, by ascending places. A place
        is left out where no token is longer than the rest of the text, even if one equals it.
        """
        nodes = np.empty(len(text), dtype=np.int32)
        _find_suffix_nodes(self.arrays, np.frombuffer(text, dtype=np.uint8), nodes)
        return [(begin, node) for begin, node in enumerate(nodes.tolist()) if node != _NOWHERE]

    def tokens_of(self, node: int) -> NDArray[np.int32]:
        """Return the tokens that ``node`` spells."""
        tokens: NDArray[np.int32]
        tokens = self.token_ids[self.nodes[node, FIRST_TOKEN] : self.nodes[node + 1, FIRST_TOKEN]]
        return tokens

    def children(self, node: int) -> list[int]:
        """Return the nodes one byte below."""
        first, last = self.nodes[node, FIRST_CHILD], self.nodes[node + 1, FIRST_CHILD]
        children: list[int] = self.child_nodes[first:last].tolist()
        return children

    def tokens_below(self, node: int) -> NDArray[np.int32]:
        """Return the tokens that begin with what ``node`` spells, its own among them."""
        first = self.nodes[node, FIRST_TOKEN]
        last = self.nodes[self.nodes[node, END], FIRST_TOKEN]
        tokens: NDArray[np.int32] = self.token_ids[first:last]
        return tokens

    def check(self) -> None:
        """Raise AssertionError unless the arrays describe one depth-first trie."""
        count = len(self)
        end, depth, first = (self.nodes[:count, column] for column in (END, DEPTH, FIRST_TOKEN))
        assert end[0] == count and depth[0] == 0
        assert (end > np.arange(count)).all() and (end <= count).all()
        assert (np.diff(depth) <= 1).all() and (depth[1:] >= 1).all()
        assert first[0] == 0 and self.nodes[count, FIRST_TOKEN] == len(self.token_ids)
        parents = np.repeat(np.arange(count), np.diff(self.nodes[:, FIRST_CHILD]))
        assert len(self.child_nodes) == len(self.child_bytes) == count - 1
        assert (depth[self.child_nodes] == depth[parents] + 1).all()
        assert (self.child_nodes > parents).all() and (self.child_nodes < end[parents]).all()
        assert (self.child_bytes == self.nodes[self.child_nodes, BYTE]).all()


@kernel
def _find(arrays: TrieArrays, text: NDArray[np.uint8]) -> int:
    """Return the node that spells a text, _NOWHERE for none."""
    nodes, child_bytes, child_nodes = arrays.nodes, arrays.child_bytes, arrays.child_nodes
    node = 0
    for byte in text:
        child, last = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
        while child < last and child_bytes[child] != byte:
            child += 1
        if child == last:
            return _NOWHERE
        node = child_nodes[child]
    return node


@kernel
def _find_suffix_nodes(
    arrays: TrieArrays, text: NDArray[np.uint8], found: NDArray[np.int32]
) -> None:
    """Write to ``found``, for each place in a text, the node that spells the text from there on.

    It is _NOWHERE if there is none, or if no longer token begins with that.

    ``found`` has a place for each byte of ``text``, and all of them are written.
    """
    nodes = arrays.nodes
    for begin in range(len(text)):
        node = _find(arrays, text[begin:])
        is_inner = node != _NOWHERE and nodes[node, END] != node + 1
        found[begin] = node if is_inner else _NOWHERE


@kernel
def _collect_bytes_below(
    nodes: NDArray[np.int32], sets: NDArray[np.uint64], bytes_below: NDArray[np.uint64]
) -> None:
    """Fill ``TokenTrie.bytes_below``; ``sets``, uint64 ``[depths + 1, 2]``, is all zero."""
    # Backwards, so that all nodes below a node come before it. ``sets`` collects by depth the bytes
    # of subtrees whose parent comes later; the parent takes them and clears the line.
    for node in range(len(bytes_below) - 1, -1, -1):
        depth, byte = nodes[node, DEPTH], nodes[node, BYTE]
        for word in range(2):
            bytes_below[node, word] = sets[depth + 1, word]
            sets[depth, word] |= sets[depth + 1, word]
            sets[depth + 1, word] = 0
        bit = byte if byte < 128 else 0
        sets[depth, bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def _fill_nodes(
    text: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    nodes: NDArray[np.int32],
    parents: NDArray[np.int32],
) -> int:
    """Fill ``nodes`` and ``parents`` from sorted tokens, which lie side by side in ``text``.

    The sorted token ``i`` is ``text[bounds[i]:bounds[i + 1]]``. FIRST_CHILD is left for the caller.
    Returns the number of nodes; the lines after them are left as they were.

    The tokens must be sorted by their bytes, or prefixes would get two nodes. ``nodes`` and
    ``parents`` need a line for each byte of ``text`` and one for the root; compiled code checks no
    bounds.
    """
    nodes[0, DEPTH] = nodes[0, BYTE] = nodes[0, FIRST_TOKEN] = 0
    parents[0] = _NOWHERE
    count, node, begin = 1, 0, 0  # the root, the node of the last token, where that token begins
    for token in range(len(bounds) - 1):
        first, last = bounds[token], bounds[token + 1]
        # A sorted token shares its longest prefix with the one before: go up to where they part.
        depth = nodes[node, DEPTH]
        shared = 0
        while shared < depth and shared < last - first:
            if text[begin + shared] != text[first + shared]:
                break
            shared += 1
        # Nodes that are left get no more nodes below them, so their END is known now.
        while depth > shared:
            nodes[node, END] = count
            node = parents[node]
            depth -= 1
        for at in range(first + shared, last):
            parents[count] = node
            node = count
            nodes[node, DEPTH] = at - first + 1
            nodes[node, BYTE] = text[at]
            nodes[node, FIRST_TOKEN] = token
            count += 1
        begin = first
    while node != _NOWHERE:
        nodes[node, END] = count
        node = parents[node]
    return count


def trie_from_tokens(token_bytes: Sequence[bytes | None]) -> TokenTrie:
    """Return the trie of a vocabulary by token id; ``None`` and empty tokens are not in it.

    Tokens of the same bytes share a node and stand there by ascending id. Token ids and the number
    of tokens are those of ``token_bytes``, including those left out.
    """
    spelled = sorted((text, token) for token, text in enumerate(token_bytes) if text)
    texts = [text for text, _ in spelled]
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    lines = np.zeros((bounds[-1] + 2, NODE_WIDTH), dtype=np.int32)
    parents = np.zeros(len(lines), dtype=np.int32)
    text = np.frombuffer(b"".join(texts), dtype=np.uint8)
    count = _fill_nodes(text, bounds, lines, parents)
    nodes, parents = lines[: count + 1].copy(), parents[:count]
    nodes[count, FIRST_TOKEN] = len(spelled)
    # The closing line's FIRST_TOKEN is set; its other columns are zero and never read.
    longest = int(nodes[:, DEPTH].max())
    bytes_below = np.zeros((count, 2), dtype=np.uint64)
    _collect_bytes_below(nodes, np.zeros((longest + 2, 2), dtype=np.uint64), bytes_below)
    # Sorted by parent and, as the sort is stable, by number: each node's children side by side.
    children = np.argsort(parents, kind="stable")[1:]  # without the root, which comes first
    nodes[:, FIRST_CHILD] = np.searchsorted(parents[children], np.arange(count + 1))
    return TokenTrie(
        nodes,
        bytes_below,
        np.array([token for _, token in spelled], dtype=np.int32),
        nodes[children, BYTE].astype(np.uint8),
        children.astype(np.int32),
        len(token_bytes),
        longest,
    )
