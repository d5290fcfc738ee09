"""The fewest tokens that spell a text, whether or not the tokenizer would choose them."""

from __future__ import annotations

from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from guided.masks.trie import DEPTH, FIRST_CHILD, FIRST_TOKEN, TokenTrie, TrieArrays
from guided.runtime.kernel import kernel
from guided.runtime.work_budget import spend, without_gil
from guided.spec import TokenId

__all__ = ["FewestTokens"]

_BYTES_A_UNIT: Final = 8
"""Bytes of a text that one unit of work puts into tokens."""


class FewestTokens:
    """Spells one text after another, by dynamic programming from the end of each.

    The results for a text include those for its suffixes: spelling the rest of a text after some
    of its tokens takes a comparison. Not thread-safe.
    """

    def __init__(self, trie: TokenTrie) -> None:
        self._trie = trie
        self._text = b""
        """The text spelled last."""
        self._counts: NDArray[np.int32] = np.zeros(1, np.int32)
        self._first_nodes: NDArray[np.int32] = np.empty(0, np.int32)
        """By byte of the text, how many tokens spell the rest from there, and the first one's node.
        """

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds."""
        return len(self._text) + self._counts.nbytes + self._first_nodes.nbytes

    def count(self, text: bytes) -> int:
        """Return how many tokens spell ``text``, every byte of which has to be a token."""
        place = self._locate(text)  # before ``_counts`` is read, which it may replace
        count = int(self._counts[place])
        assert count <= len(text), f"no tokens spell {text!r}"
        return count

    def spells(self, text: bytes) -> bool:
        """Return whether any tokens spell ``text``."""
        return int(self._counts[self._locate(text)]) <= len(text)

    def tokens(self, text: bytes) -> tuple[TokenId, ...]:
        """Return the fewest tokens that spell ``text``; of equally few, the longest first."""
        place, spelled = self._locate(text), np.empty(self.count(text), np.int32)
        _collect_tokens(self._trie.arrays, self._first_nodes, place, spelled)
        # Converting them one by one would take longer than finding them, where there are thousands.
        return cast("tuple[TokenId, ...]", tuple(spelled.tolist()))

    def _locate(self, text: bytes) -> int:
        """Return where ``text`` begins in the last text; it replaces that unless it is a suffix."""
        if not self._text.endswith(text):
            units = len(text) // _BYTES_A_UNIT
            spend(units)
            counts, first_nodes = np.empty(len(text) + 1, np.int32), np.empty(len(text), np.int32)
            with without_gil(units):
                _fill_counts(self._trie.arrays, np.frombuffer(text, np.uint8), counts, first_nodes)
            self._text, self._counts, self._first_nodes = text, counts, first_nodes
        return len(self._text) - len(text)


@kernel
def _fill_counts(
    arrays: TrieArrays,
    text: NDArray[np.uint8],
    counts: NDArray[np.int32],
    first_nodes: NDArray[np.int32],
) -> None:
    """Fill ``first_nodes`` and ``counts``, by place in the text.

    If no tokens spell the rest, ``counts`` exceeds the number of bytes.
    """
    nodes, child_bytes, child_nodes = arrays.nodes, arrays.child_bytes, arrays.child_nodes
    size = len(text)
    counts[size] = 0
    for start in range(size - 1, -1, -1):
        counts[start], node, end = size + 1, 0, start
        while end < size:
            child, last = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
            while child < last and child_bytes[child] != text[end]:
                child += 1
            if child == last:
                break
            node, end = child_nodes[child], end + 1
            is_token = nodes[node, FIRST_TOKEN] < nodes[node + 1, FIRST_TOKEN]
            # Not "<": where the numbers are equal, the longer token, which is met later, wins. A
            # place from which no tokens spell the rest holds ``size + 1``, and one token more never
            # gets below that.
            if is_token and counts[end] + 1 <= counts[start]:
                counts[start], first_nodes[start] = counts[end] + 1, node


@kernel
def _collect_tokens(
    arrays: TrieArrays,
    first_nodes: NDArray[np.int32],
    place: int,
    tokens: NDArray[np.int32],
) -> None:
    """Fill ``tokens`` with the tokens of the steps from a place on.

    Of tokens with the same bytes it takes the one with the lowest id.
    """
    nodes, token_ids = arrays[0], arrays[1]
    for number in range(len(tokens)):
        node = first_nodes[place]
        tokens[number] = token_ids[nodes[node, FIRST_TOKEN]]
        place += nodes[node, DEPTH]
