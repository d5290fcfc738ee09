"""How numbers are spelled (RFC 8259, section 6): all of them, and listed ones, as tables."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

import numpy as np

from guided.json_schema.formulas.number_tables import (
    ANY_DIGIT,
    FAILS,
    HOLDS,
    LETTER,
    MINUS,
    NONZERO,
    PLUS,
    POINT,
    WIDTH,
    NumberTable,
    joined,
)
from guided.regular.dfa import DEAD, Dfa
from guided.runtime.fuel import spend

__all__ = ["chosen", "exact_text", "number_syntax", "shortest_spellings", "split"]


def exact_text(value: Decimal) -> str:
    """Return the shortest spelling without exponent, exact however many digits it has.

    Zero is ``0``, even a negative one. Callers bound the digits first: an exponent is written out.
    """
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text in ("-0", "") else text


def split(value: Decimal) -> tuple[str, int]:
    """Return the digits of a magnitude without outer zeros, and the power of ten of the last.

    Zero has no digits. The value is ``int(digits) * 10**power`` without its sign; the power of zero
    is 0.
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    return stripped, exponent + len(text) - len(stripped) if stripped else 0


MAX_EXPONENT_DIGITS: Final = 3
"""The most digits of an exponent: no double has more, and exact arithmetic would not end."""


@functools.lru_cache(maxsize=64)
def number_syntax(
    canonical: bool, most_whole: int | None, most_fraction: int | None
) -> NumberTable:
    """Return all numbers with at most this many digits before and after the point; ``None``: any.

    Canonical ones have neither an exponent nor a minus sign in front of zero. States that are
    ``bare`` have read ``-0``, which needs a digit above 0 after its point where that matters. The
    table is kept and shared, so it must not be changed. Other tables are joined with it, so numbers
    that it does not spell never reach them.
    """
    whole, fraction = most_whole or 1, most_fraction or 1
    start, minus, zero, point, bare_zero, bare_point, letter, sign, first = range(9)
    wholes = first + np.arange(whole)
    fractions = wholes[-1] + 1 + np.arange(fraction)
    bare_fractions = fractions[-1] + 1 + np.arange(fraction)
    exponents = bare_fractions[-1] + 1 + np.arange(MAX_EXPONENT_DIGITS)
    table = np.full((exponents[-1] + 1, WIDTH), DEAD, dtype=np.int32)

    table[[start, minus], 1:10] = wholes[0]
    table[start, MINUS] = minus
    table[start, 0] = zero
    table[minus, 0] = bare_zero if canonical else zero
    table[wholes[:-1], ANY_DIGIT] = wholes[1:, None]
    if most_whole is None:
        table[wholes, ANY_DIGIT] = wholes[0]
    table[[zero, *wholes], POINT] = point
    table[bare_zero, POINT] = bare_point

    table[[point, bare_point], 1:10] = fractions[0]
    table[point, 0], table[bare_point, 0] = fractions[0], bare_fractions[0]
    table[fractions[:-1], ANY_DIGIT] = fractions[1:, None]
    table[bare_fractions[:-1], NONZERO] = fractions[1:, None]
    table[bare_fractions[:-1], 0] = bare_fractions[1:]
    if most_fraction is None:
        table[fractions, ANY_DIGIT] = fractions[0]
        table[bare_fractions, NONZERO], table[bare_fractions, 0] = fractions[0], bare_fractions[0]

    if not canonical:
        table[[zero, *wholes, *fractions], LETTER] = letter
    table[letter, [MINUS, PLUS]] = sign
    table[[letter, sign], ANY_DIGIT] = exponents[0]
    table[exponents[:-1], ANY_DIGIT] = exponents[1:, None]

    label = np.full(len(table), DEAD, dtype=np.int32)
    label[[zero, *wholes, *fractions, *exponents]] = HOLDS
    return NumberTable(table, label)


@functools.cache
def shortest_spellings() -> Dfa:
    """Return every number once: without an exponent and without zeros that end a fraction.

    The result is kept for the process, and must not be changed. It serves to count numbers,
    which have infinitely many spellings.
    """
    syntax = number_syntax(canonical=True, most_whole=None, most_fraction=None)
    fraction, zeros = 1, 2
    table = np.full((3, WIDTH), 0, dtype=np.int32)
    table[:, POINT] = zeros
    table[[fraction, zeros], NONZERO] = fraction
    table[[fraction, zeros], 0] = zeros
    label = np.array((HOLDS, HOLDS, FAILS), dtype=np.int32)
    return joined([syntax, NumberTable(table, label)], fails=False)


_COLUMN: Final = {"-": MINUS, ".": POINT, "e": LETTER, "+": PLUS} | {str(d): d for d in range(10)}


def chosen(values: Sequence[Decimal], *, shortest: bool) -> NumberTable:
    """Return the numbers that equal one of the values, as a trie; zeros may follow after a point.

    With ``shortest``, a value that is not spelled in the shortest way is left undecided. Among
    numbers with exponent, those hold that programs write for a value; others are undecided. Texts
    are written out in full, so callers check the digits of the values first
    (``numbers._check_digits``).
    """
    trie = _Trie()
    plain = [
        text for value in values for text in (["0", "-0"] if value == 0 else [exact_text(value)])
    ]
    scientific = [] if shortest else [text for value in values for text in _scientific(value)]
    # The order matters. All texts share one node after zeros, so what is inserted once there are
    # zeros would follow any text; and nodes up to ``failed`` are those that no letter leads to.
    held = [trie.insert(text) for text in plain]
    for text in scientific:
        trie.insert(text.partition("e")[0])
    padded = {node for text in plain for node in trie.padded(text)}
    failed = trie.node()
    held += [trie.insert(text) for text in scientific]
    spend(trie.size)

    table = np.full((trie.size, WIDTH), DEAD, dtype=np.int32)
    np.put(table, [*trie.edges], [*trie.edges.values()])
    label = np.full(trie.size, DEAD, dtype=np.int32)
    label[: failed + 1] = FAILS
    label[[*padded]] = DEAD if shortest else HOLDS
    label[held] = HOLDS
    # After the letter of an exponent, which only later nodes are, everything else is undecided.
    elsewhere = table[: failed + 1, : POINT + 1]
    elsewhere[elsewhere == DEAD] = failed
    return NumberTable(table, label)


def _scientific(value: Decimal) -> Iterator[str]:
    """Yield spellings with exponent, as Python, JavaScript and people write extreme numbers.

    Yields nothing for zero, and for numbers that these programs write without an exponent.
    """
    digits, last = split(value)
    exponent = last + len(digits) - 1
    if not digits or -4 <= exponent < 16:
        return
    mantissa = ("-" if value < 0 else "") + digits[0] + ("." + digits[1:] if digits[1:] else "")
    written = dict.fromkeys((f"{exponent:+03}", f"{exponent:+}", f"{exponent}"))
    yield from (f"{mantissa}e{text}" for text in written)


class _Trie:
    """Texts by their first characters; a node's moves are the cells of a table, row by row.

    Node 0 is the root. Nodes are numbered as they are made, and never removed.
    """

    def __init__(self) -> None:
        self.zeros = 1
        """The node after zeros that no text continues."""
        self.edges = {self.zeros * WIDTH: self.zeros}
        """By cell, which is node * WIDTH + column, the node that it leads to."""
        self.size = 2
        """The number of nodes."""

    def node(self) -> int:
        self.size += 1
        return self.size - 1

    def insert(self, text: str) -> int:
        """Return the node of the text; nodes that it needs are added.

        A text that ends inside another one is a node like any other: the caller records what ends
        where.
        """
        node = 0
        for character in text:
            cell = node * WIDTH + _COLUMN[character]
            node = self.edges.get(cell, -1)
            if node < 0:
                node = self.edges[cell] = self.node()
        return node

    def padded(self, text: str) -> Iterator[int]:
        """Yield the nodes of the text with zeros added after the point.

        To be read to its end, and once all texts are in: it adds nodes for the point, and the move
        into ``zeros`` last.
        """
        node = self.insert(text if "." in text else text + ".")
        while node != self.zeros and node * WIDTH in self.edges:
            node = self.edges[node * WIDTH]
            yield node
        # No text continues like this: one node stands for all further zeros.
        self.edges[node * WIDTH] = self.zeros
        yield self.zeros
