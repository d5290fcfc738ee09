"""Listed numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

import numpy as np

from guided.json_schema.formulas.decimals import exact_text, split
from guided.json_schema.formulas.number_tables import (
    FAILS,
    HOLDS,
    LETTER,
    MINUS,
    PLUS,
    POINT,
    WIDTH,
    NumberTable,
)
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["chosen"]

_COLUMN: Final = {"-": MINUS, ".": POINT, "e": LETTER, "+": PLUS} | {str(d): d for d in range(10)}


def chosen(values: Sequence[Decimal], *, shortest: bool) -> NumberTable:
    """The numbers that equal one of the values, as a trie; zeros may follow behind a point.

    With ``shortest``, nothing is said about a value that is not spelled as short as can be. Of
    numbers with exponent, those hold that programs write for a value; nothing is said of others.
    """
    trie = _Trie()
    plain = [
        text for value in values for text in (["0", "-0"] if value == 0 else [exact_text(value)])
    ]
    scientific = [] if shortest else [text for value in values for text in _scientific(value)]
    held = [trie.insert(text) for text in plain]
    padded = {node for text in plain for node in trie.padded(text)}
    for text in scientific:
        trie.insert(text.partition("e")[0])
    failed = trie.node()
    held += [trie.insert(text) for text in scientific]
    spend(trie.size)

    table = np.full((trie.size, WIDTH), DEAD, dtype=np.int32)
    np.put(table, [*trie.edges], [*trie.edges.values()])
    label = np.full(trie.size, DEAD, dtype=np.int32)
    label[: failed + 1] = FAILS
    label[[*padded]] = DEAD if shortest else HOLDS
    label[held] = HOLDS
    # Behind the letter of an exponent, which only later nodes are, nothing else is known.
    elsewhere = table[: failed + 1, : POINT + 1]
    elsewhere[elsewhere == DEAD] = failed
    return NumberTable(table, label)


def _scientific(value: Decimal) -> Iterator[str]:
    """As Python and JavaScript write what is very small or large, and as people do."""
    digits, last = split(value)
    exponent = last + len(digits) - 1
    if not digits or -4 <= exponent < 16:
        return
    mantissa = ("-" if value < 0 else "") + digits[0] + ("." + digits[1:] if digits[1:] else "")
    written = dict.fromkeys((f"{exponent:+03}", f"{exponent:+}", f"{exponent}"))
    yield from (f"{mantissa}e{text}" for text in written)


class _Trie:
    """Texts by their first characters; a node's moves are the cells of a table, row by row."""

    def __init__(self) -> None:
        self.zeros = 1
        """Behind the zeros that no text goes on with."""
        self.edges = {self.zeros * WIDTH: self.zeros}
        self.size = 2

    def node(self) -> int:
        self.size += 1
        return self.size - 1

    def insert(self, text: str) -> int:
        """The node of the text."""
        node = 0
        for character in text:
            cell = node * WIDTH + _COLUMN[character]
            node = self.edges.get(cell, -1)
            if node < 0:
                node = self.edges[cell] = self.node()
        return node

    def padded(self, text: str) -> Iterator[int]:
        """The nodes of the text with zeros added behind the point."""
        node = self.insert(text if "." in text else text + ".")
        while node != self.zeros and node * WIDTH in self.edges:
            node = self.edges[node * WIDTH]
            yield node
        # No text goes on like this: one node stands for all further zeros.
        self.edges[node * WIDTH] = self.zeros
        yield self.zeros
