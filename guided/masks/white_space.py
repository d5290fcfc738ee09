"""The part of a mask that is white space, for rows in which any white space may stand.

Between two parts of JSON such a row leads to itself by blanks. Tokens of blanks alone are allowed
wherever it stands, and what may follow blanks is what may follow without them: so a walk begins
where the first other byte was read, once for each such byte.
"""

from __future__ import annotations

import numpy as np

from guided.masks.independent import IndependentMask
from guided.masks.mask_kernels import set_tokens
from guided.masks.outline_kernels import BLANKS
from guided.masks.trie import BYTE, TokenTrie
from guided.masks.walk_kernels import BY_BYTE
from guided.masks.walk_path import SITE_WIDTH

__all__ = ["white_space_mask"]


def white_space_mask(trie: TokenTrie) -> IndependentMask:
    """Return the tokens of white space alone, and the sites after it, sorted by their last byte.

    Sites of one byte must stand side by side, as a walk finds their state once. The mask is
    read-only: all constraints of the vocabulary share it.
    """
    mask = np.zeros(trie.words, dtype=np.int32)
    after, worklist = list[int](), [0]
    while worklist:
        node = worklist.pop()
        set_tokens(trie.tokens_of(node), mask)
        for child in trie.children(node):
            (worklist if trie.nodes[child, BYTE] in BLANKS else after).append(child)
    after.sort(key=lambda node: (int(trie.nodes[node, BYTE]), node))
    sites = np.zeros((len(after), SITE_WIDTH), dtype=np.int32)
    sites[:, 0] = after
    sites[:, 3] = BY_BYTE - trie.nodes[after, BYTE]
    mask.flags.writeable = False
    return IndependentMask(mask, np.empty(0, dtype=np.uint16), sites, 0)
