"""A text in as few tokens as will do, whatever the tokenizer itself would make of it."""

from __future__ import annotations

import numpy as np

from guided.masks.trie import DEPTH, FIRST_CHILD, FIRST_TOKEN, TokenTrie
from guided.runtime.kernel import kernel
from guided.spec import TokenId

__all__ = ["fewest_tokens"]


def fewest_tokens(trie: TokenTrie, text: bytes) -> tuple[TokenId, ...]:
    """The fewest tokens whose bytes make up ``text``; every byte of it has to be a token.

    Dynamic programming from the end of the text; linear in its length.
    """
    needed, steps = np.empty(len(text) + 1, np.int32), np.empty(len(text), np.int32)
    tokens = np.empty(len(text), np.int32)
    count = _cover(trie.arrays, np.frombuffer(text, np.uint8), needed, steps, tokens)
    assert count >= 0, f"no tokens spell {text!r}"
    return tuple(map(TokenId, tokens[:count].tolist()))


@kernel
def _cover(arrays, text, needed, steps, tokens):  # type: ignore[no-untyped-def]
    """Fill ``tokens`` and return how many there are, -1 where none make up the text.

    ``needed`` is how many tokens it takes from each byte to the end, ``steps`` the node of the
    first of them: of several ways with as few tokens, the one that begins with the longest.
    """
    nodes, token_ids, child_bytes, child_nodes = arrays
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
            if is_token and needed[end] + 1 <= needed[start]:
                needed[start], steps[start] = needed[end] + 1, node
    if needed[0] > size:
        return -1
    count, place = 0, 0
    while place < size:
        node = steps[place]
        tokens[count] = token_ids[nodes[node, FIRST_TOKEN]]
        count += 1
        place += nodes[node, DEPTH]
    return count
