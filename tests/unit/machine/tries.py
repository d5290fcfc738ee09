"""Automata of a few texts, for the tests of blocks and tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD

__all__ = ["trie_of"]


def trie_of(labels: Mapping[bytes, int]) -> ByteDfa:
    """The trie of texts, at least one, each accepted as its label."""
    states = {b"": 0}
    for text in labels:
        for end in range(1, len(text) + 1):
            states.setdefault(text[:end], len(states))
    used = sorted({byte for text in labels for byte in text})
    byte_class = np.zeros(256, dtype=np.uint8)  # class 0: bytes of no text
    byte_class[used] = np.arange(1, len(used) + 1)
    table = np.full((len(states), len(used) + 1), DEAD, dtype=np.int32)
    for text, state in states.items():
        if text:
            table[states[text[:-1]], byte_class[text[-1]]] = state
    label = [labels.get(text, DEAD) for text in states]
    return ByteDfa(byte_class, table, np.array(label, dtype=np.int32))
