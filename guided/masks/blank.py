"""The part of a mask that is white space, for rows that any white space may stand in.

Between two parts of JSON such a row leads to itself on blanks. Tokens of nothing else are allowed
wherever it stands, and what comes behind blanks is what comes without them: so the walk begins
where the first other byte was read, and only for bytes that the row takes.
"""

from __future__ import annotations

import numpy as np

from guided.masks.inner import InnerMask
from guided.masks.mask import empty_mask, with_tokens
from guided.masks.steps import BY_BYTE
from guided.masks.trie import BYTE, TokenTrie

__all__ = ["BLANKS", "blank_mask"]

BLANKS = b" \t\n\r"


def blank_mask(trie: TokenTrie) -> InnerMask:
    """The tokens of white space, and the sites behind white space, sorted by their byte."""
    mask = empty_mask(trie.vocabulary_size)
    nodes = trie.nodes
    behind, waiting = list[int](), [0]
    while waiting:
        node = waiting.pop()
        with_tokens(mask, trie.tokens_of(node).tolist())
        for child in trie.children(node):
            (waiting if nodes[child, BYTE] in BLANKS else behind).append(child)
    behind.sort(key=lambda node: (int(nodes[node, BYTE]), node))
    sites = np.zeros((len(behind), 4), dtype=np.int32)
    sites[:, 0] = behind
    sites[:, 3] = BY_BYTE - nodes[behind, BYTE]
    mask.flags.writeable = False
    return InnerMask(mask, 1, np.empty(0, dtype=np.uint16), sites, 0)
