"""All tokens of a vocabulary as one trie over their bytes, flattened depth first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["TokenTrie", "trie_from_tokens"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenTrie:
    """Node 0 is the root; the nodes below node ``i`` are ``i + 1`` up to ``end[i]``, exclusive.

    ``byte`` uint8, ``depth`` and ``end`` int32, all ``[nodes]``. The tokens spelled by node ``i``
    are ``token_ids[token_start[i]:token_start[i + 1]]``: several where a vocabulary holds the same
    bytes twice.
    """

    byte: NDArray[np.uint8]
    depth: NDArray[np.int32]
    end: NDArray[np.int32]
    token_start: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    vocabulary_size: int

    @property
    def words(self) -> int:
        """Length of a packed mask in words of 32 bits."""
        return (self.vocabulary_size + 31) // 32

    def find(self, text: bytes) -> int | None:
        """The node that spells ``text``, ``None`` where no token begins so."""
        node = 0
        for byte in text:
            child, last = node + 1, int(self.end[node])
            while child < last and self.byte[child] != byte:
                child = int(self.end[child])
            if child >= last:
                return None
            node = child
        return node

    def tokens_below(self, node: int) -> NDArray[np.int32]:
        """The tokens that begin with what ``node`` spells, its own among them."""
        tokens: NDArray[np.int32] = self.token_ids[
            self.token_start[node] : self.token_start[self.end[node]]
        ]
        return tokens

    def check(self) -> None:
        """Raise AssertionError unless the arrays describe one depth-first trie."""
        nodes = len(self.byte)
        assert self.end[0] == nodes and self.depth[0] == 0
        assert (self.end > np.arange(nodes)).all() and (self.end <= nodes).all()
        assert (np.diff(self.depth) <= 1).all() and (self.depth[1:] >= 1).all()
        assert self.token_start[0] == 0 and self.token_start[-1] == len(self.token_ids)


def trie_from_tokens(token_bytes: Sequence[bytes | None]) -> TokenTrie:
    """The trie of a vocabulary by token id; ``None`` and empty tokens are not in it."""
    spelled = sorted((text, token) for token, text in enumerate(token_bytes) if text)
    byte, depth, end, starts, ids = [0], [0], [0], [0], list[int]()
    path = [0]  # nodes from the root to the latest one
    previous = b""
    for text, token in spelled:
        shared = _shared_prefix(previous, text)
        for node in path[shared + 1 :]:
            end[node] = len(byte)
        del path[shared + 1 :]
        for position in range(shared, len(text)):
            path.append(len(byte))
            byte.append(text[position])
            depth.append(position + 1)
            end.append(0)
            starts.append(len(ids))
        ids.append(token)
        previous = text
    for node in path:
        end[node] = len(byte)
    return TokenTrie(
        byte=np.array(byte, dtype=np.uint8),
        depth=np.array(depth, dtype=np.int32),
        end=np.array(end, dtype=np.int32),
        token_start=np.array([*starts, len(ids)], dtype=np.int32),
        token_ids=np.array(ids, dtype=np.int32),
        vocabulary_size=len(token_bytes),
    )


def _shared_prefix(left: bytes, right: bytes) -> int:
    length = min(len(left), len(right))
    for index in range(length):
        if left[index] != right[index]:
            return index
    return length
