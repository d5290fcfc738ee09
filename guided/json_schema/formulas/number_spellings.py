"""Spellings of numbers (RFC 8259, section 6) as tables: of all numbers, and of listed ones."""

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
)
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend, with_pauses

__all__ = [
    "exact_text",
    "listed_numbers",
    "number_syntax",
    "significant_digits",
]


def exact_text(value: Decimal) -> str:
    """Return the shortest spelling without exponent, exact however many digits it has.

    Zero is ``0``, even a negative one. Callers bound the digits first: an exponent is written out.
    """
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text in ("-0", "") else text


def significant_digits(value: Decimal) -> tuple[str, int]:
    """Return the digits of a number without outer zeros, and the power of ten of the last one.

    The absolute value is ``int(digits) * 10**power``. Zero has no digits, and power 0.
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    return stripped, exponent + len(text) - len(stripped) if stripped else 0


MAX_EXPONENT_DIGITS: Final = 3
"""The most digits of an exponent: doubles have no more, and exact arithmetic would take too
long."""


@functools.lru_cache(maxsize=64)
def number_syntax(
    canonical: bool, most_whole: int | None, most_fraction: int | None
) -> NumberTable:
    """Return the table of all numbers with at most this many digits on each side of the point.

    ``None`` is no limit, and a limit is at least 1. Canonical numbers have neither an exponent nor
    a minus before zero: the states named ``bare`` have read ``-0``, which then needs a nonzero
    digit after the point. The table is cached and shared, so it must not be changed. Other tables
    are intersected with it.
    """
    assert most_whole != 0 and most_fraction != 0, "no digits are no number"
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


_COLUMN: Final = {"-": MINUS, ".": POINT, "e": LETTER, "+": PLUS} | {str(d): d for d in range(10)}


def listed_numbers(values: Sequence[Decimal], *, shortest: bool) -> NumberTable:
    """Return the table of the numbers that equal one of the values, made from a trie.

    With ``shortest``, only the shortest spelling of each value holds. Otherwise, zeros may end its
    fraction, and of its spellings with an exponent those hold that programs write. All other
    spellings of a value are undecided. Callers check the digits of the values first
    (``numbers._check_digits``), as values are written out in full.
    """
    trie = _Trie()
    plain: list[str] = []
    for value in with_pauses(values):
        plain += ["0", "-0"] if value == 0 else [exact_text(value)]
    scientific = (
        []
        if shortest
        else [text for value in with_pauses(values) for text in _exponent_spellings(value)]
    )
    # The order matters: all texts share the node after zeros, so they must be inserted before it
    # is reached. And the nodes up to ``failed`` are those that are not inside an exponent.
    holding = [trie.insert(text) for text in with_pauses(plain)]
    for text in with_pauses(scientific):
        trie.insert(text.partition("e")[0])
    padded = {node for text in with_pauses(plain) for node in trie.insert_padded(text)}
    failed = trie.add_node()
    holding += [trie.insert(text) for text in with_pauses(scientific)]
    spend(trie.size)

    table = np.full((trie.size, WIDTH), DEAD, dtype=np.int32)
    np.put(table, [*trie.edges], [*trie.edges.values()])
    label = np.full(trie.size, DEAD, dtype=np.int32)
    label[: failed + 1] = FAILS
    label[[*padded]] = DEAD if shortest else HOLDS
    label[holding] = HOLDS
    # Inside an exponent, that is in later nodes, all other texts are undecided.
    elsewhere = table[: failed + 1, : POINT + 1]
    elsewhere[elsewhere == DEAD] = failed
    return NumberTable(table, label)


def _exponent_spellings(value: Decimal) -> Iterator[str]:
    """Yield the spellings with an exponent that Python, JavaScript and people write.

    Yields nothing for zero, and for numbers that Python writes without an exponent.
    """
    digits, last_power = significant_digits(value)
    exponent = last_power + len(digits) - 1
    # As ``repr(float)`` does.
    if not digits or -4 <= exponent < 16:
        return
    mantissa = ("-" if value < 0 else "") + digits[0] + ("." + digits[1:] if digits[1:] else "")
    exponent_texts = dict.fromkeys((f"{exponent:+03}", f"{exponent:+}", f"{exponent}"))
    yield from (f"{mantissa}e{text}" for text in exponent_texts)


class _Trie:
    """A trie of the spellings of numbers, whose edges are the cells of a table.

    Node 0 is the root. Nodes are numbered as they are added, and never removed.
    """

    def __init__(self) -> None:
        self.zeros = 1
        """The node after a zero that ends a fraction and continues no inserted text: it stands for
        all further zeros, of any text."""
        self.edges = {self.zeros * WIDTH: self.zeros}
        """The target node by cell, which is node * WIDTH + column."""
        self.size = 2
        """The number of nodes."""

    def add_node(self) -> int:
        """Add a node without edges, and return its number."""
        self.size += 1
        return self.size - 1

    def insert(self, text: str) -> int:
        """Return the node of a text; adds the nodes that it needs.

        The trie does not record where texts end; the caller does.
        """
        # Most spellings are short, and the nodes that they add are counted.
        spend(len(text) // 16)
        node = 0
        for character in text:
            cell = node * WIDTH + _COLUMN[character]
            node = self.edges.get(cell, -1)
            if node < 0:
                node = self.edges[cell] = self.add_node()
        return node

    def insert_padded(self, text: str) -> Iterator[int]:
        """Yield the nodes of a text with zeros added to its fraction, and insert them.

        To be called after all other texts are inserted, and read to its end.
        """
        node = self.insert(text if "." in text else text + ".")
        while node != self.zeros and node * WIDTH in self.edges:
            node = self.edges[node * WIDTH]
            yield node
        self.edges[node * WIDTH] = self.zeros
        yield self.zeros
