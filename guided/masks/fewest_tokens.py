"""The fewest tokens that spell a text, whether or not the tokenizer would choose them."""

from __future__ import annotations

from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from guided.masks.trie import DEPTH, FIRST_CHILD, FIRST_TOKEN, TokenTrie, TrieArrays
from guided.runtime.fuel import spend, without_gil
from guided.runtime.kernel import kernel
from guided.spec import TokenId

__all__ = ["FewestTokens"]

_BYTES_A_UNIT: Final = 8
"""Bytes of a text that one unit of work puts into tokens."""


class FewestTokens:
    """Spells one text after another, by dynamic programming from the end of each.

    A suffix of the last text is known with it: finding the rest of a text after some of its
    tokens takes a comparison. Not thread-safe.
    """

    def __init__(self, trie: TokenTrie) -> None:
        self._trie = trie
        self._text = b""
        """The text spelled last."""
        self._needed: NDArray[np.int32] = np.zeros(1, np.int32)
        self._steps: NDArray[np.int32] = np.empty(0, np.int32)
        """By byte of the text, how many tokens spell the rest from there, and the first one's node.
        """

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds."""
        return len(self._text) + self._needed.nbytes + self._steps.nbytes

    def count(self, text: bytes) -> int:
        """Return how many tokens spell ``text``, every byte of which has to be a token."""
        place = self._place(text)  # before ``_needed`` is read, which it may replace
        count = int(self._needed[place])
        assert count <= len(text), f"no tokens spell {text!r}"
        return count

    def tokens(self, text: bytes) -> tuple[TokenId, ...]:
        """Return the fewest tokens that spell ``text``; of equally few, the longest first."""
        place, spelled = self._place(text), np.empty(self.count(text), np.int32)
        _follow(self._trie.arrays, self._steps, place, spelled)
        # Converting them one by one would take longer than finding them, where there are thousands.
        return cast("tuple[TokenId, ...]", tuple(spelled.tolist()))

    def _place(self, text: bytes) -> int:
        """Return where ``text`` begins in the last text; it replaces that unless it is a suffix."""
        if not self._text.endswith(text):
            units = len(text) // _BYTES_A_UNIT
            spend(units)
            needed, steps = np.empty(len(text) + 1, np.int32), np.empty(len(text), np.int32)
            with without_gil(units):
                _cover(self._trie.arrays, np.frombuffer(text, np.uint8), needed, steps)
            self._text, self._needed, self._steps = text, needed, steps
        return len(self._text) - len(text)


@kernel
def _cover(
    arrays: TrieArrays,
    text: NDArray[np.uint8],
    needed: NDArray[np.int32],
    steps: NDArray[np.int32],
) -> None:
    """Fill ``steps`` and ``needed``, by place in the text.

    If no tokens spell the rest, ``needed`` exceeds the number of bytes.
    """
    nodes, _, child_bytes, child_nodes = arrays
    size = len(text)
    needed[size] = 0
    for start in range(size - 1, -1, -1):
        needed[start], node, end = size + 1, 0, start
        while end < size:
            child, last = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
            while child < last and child_bytes[child] != text[end]:
                child += 1
            if child == last:
                break
            node, end = child_nodes[child], end + 1
            is_token = nodes[node, FIRST_TOKEN] < nodes[node + 1, FIRST_TOKEN]
            # Not "<": where the numbers are equal, the longer token, which is met later, wins. A
            # place without any way holds ``size + 1``, and one token more never gets below that.
            if is_token and needed[end] + 1 <= needed[start]:
                needed[start], steps[start] = needed[end] + 1, node


@kernel
def _follow(
    arrays: TrieArrays,
    steps: NDArray[np.int32],
    place: int,
    tokens: NDArray[np.int32],
) -> None:
    """Fill ``tokens`` with the tokens of the steps from a place on."""
    nodes, token_ids = arrays[0], arrays[1]
    for number in range(len(tokens)):
        node = steps[place]
        tokens[number] = token_ids[nodes[node, FIRST_TOKEN]]
        place += nodes[node, DEPTH]
