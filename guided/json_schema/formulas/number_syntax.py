"""The spelling of numbers (RFC 8259, section 6) as a table that holds of all of them."""

from __future__ import annotations

import functools
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

__all__ = ["MAX_EXPONENT_DIGITS", "number_syntax", "shortest_spellings"]

MAX_EXPONENT_DIGITS: Final = 3
"""Digits of an exponent at most: no double has more, and exact arithmetic would not end."""


@functools.lru_cache(maxsize=64)
def number_syntax(
    canonical: bool, most_whole: int | None, most_fraction: int | None
) -> NumberTable:
    """All numbers with at most so many digits before and behind the point; ``None``: any number.

    Canonical ones have neither an exponent nor a minus sign in front of zero.
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
    """Every number once: without an exponent and without zeros that end a fraction."""
    syntax = number_syntax(canonical=True, most_whole=None, most_fraction=None)
    fraction, zeros = 1, 2
    table = np.full((3, WIDTH), 0, dtype=np.int32)
    table[:, POINT] = zeros
    table[[fraction, zeros], NONZERO] = fraction
    table[[fraction, zeros], 0] = zeros
    label = np.array((HOLDS, HOLDS, FAILS), dtype=np.int32)
    return joined([syntax, NumberTable(table, label)], fails=False)
