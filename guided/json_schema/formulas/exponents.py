"""Whole numbers, and multiples of a power of ten, as a table that follows exponents, too.

What matters is the least exponent that makes the number whole: that of ``12.50`` is 1, that of
``1200`` is -2, and zero is whole with any. Exponents are compared with it digit by digit.
"""

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
)
from guided.regular.dfa import DEAD

__all__ = ["MAX_FRACTION_DIGITS", "MAX_PLACES", "MAX_WHOLE_ZEROS", "whole_with_exponent"]

MAX_FRACTION_DIGITS: Final = 17
"""Behind the point of a number with exponent, or as many as the power of ten has."""
MAX_PLACES: Final = 32
"""Of the power of ten: the table grows with their square."""
MAX_WHOLE_ZEROS: Final = 4
"""Zeros that end the digits before the point and that a negative exponent may take away."""


@functools.lru_cache(maxsize=16)
def whole_with_exponent(places: int, *, exact: bool) -> NumberTable:
    """Multiples of ``10**-places``; unless ``exact``, nothing is said about other numbers.

    Nothing is said about an exponent behind more digits than the limits of this module either.
    """
    deepest = max(MAX_FRACTION_DIGITS, places)
    least = np.arange(-MAX_WHOLE_ZEROS, deepest + 1)  # by kind: with this exponent it is whole
    wanted = least - places
    kinds, levels = len(least), int(np.abs(wanted).max()) // 10 + 1
    start, always, below, later, soon, unknown, deep, deep_below = range(8)
    # Rows by the zeros that end the digits before the point; behind it, by the kind, where the last
    # is zero, and the digits there; then by kind and by the value of the exponent so far.
    wholes = 8 + np.arange(MAX_WHOLE_ZEROS + 1)
    behind = wholes[-1] + 1 + np.arange((kinds + 1) * (deepest + 1)).reshape(kinds + 1, -1)
    letter = behind[-1, -1] + 1 + np.arange(kinds)
    plus = letter[-1] + 1 + np.arange(kinds * levels).reshape(kinds, levels)
    minus = plus[-1, -1] + 1 + np.arange(kinds * levels).reshape(kinds, levels)
    table = np.full((minus[-1, -1] + 1, WIDTH), DEAD, dtype=np.int32)
    label = np.full(len(table), HOLDS, dtype=np.int32)

    table[start, MINUS], table[start, 0] = start, behind[-1, 0]
    table[[start, *wholes], NONZERO] = wholes[0]
    table[wholes, 0] = np.append(wholes[1:], wholes[-1])
    table[wholes, POINT] = behind[MAX_WHOLE_ZEROS::-1, 0]
    table[behind[-1, 0], POINT] = behind[-1, 0]  # 0 and 0. go on alike

    plain_below = np.append(wanted > 0, False)
    table[behind[:, :-1], 0] = behind[:, 1:]
    table[behind[:, :-1], NONZERO] = np.diag(behind[MAX_WHOLE_ZEROS + 1 : -1, 1:])[:, None]
    table[behind[:, -1], 0] = np.where(plain_below, deep_below, deep)
    table[behind[:, -1], NONZERO] = table[[deep], NONZERO] = table[deep_below, ANY_DIGIT] = (
        deep_below
    )
    table[deep, 0] = deep

    table[wholes, LETTER] = letter[MAX_WHOLE_ZEROS::-1]
    table[behind[:-1], LETTER] = letter[:, None]
    table[behind[-1], LETTER] = always
    table[always], table[below] = always, below
    table[later, ANY_DIGIT], table[soon, ANY_DIGIT] = always, below
    written = 10 * np.arange(levels)[:, None] + np.arange(10)  # [levels, 10]
    due = wanted[:, None, None]  # [kinds, 1, 1]
    table[plus, ANY_DIGIT] = np.select(
        [written >= due, 10 * written >= due], [always, later], plus[:, :1, None] + written
    )
    table[minus, ANY_DIGIT] = np.select(
        [written > -due, 10 * written > -due], [below, soon], minus[:, :1, None] + written
    )
    # More zeros might end the digits than were counted, so that a lower exponent would do.
    uncounted = table[minus[0]]
    table[minus[0]] = np.select([uncounted == below, uncounted == soon], [DEAD, unknown], uncounted)
    table[letter] = table[plus[:, 0]]
    table[letter, PLUS], table[letter, MINUS] = plus[:, 0], minus[:, 0]

    if exact:
        label[behind[plain_below]] = label[deep_below] = FAILS
    label[[below, later]] = FAILS if exact else DEAD
    label[plus] = np.where(wanted > 0, label[below], HOLDS)[:, None]
    return NumberTable(table, label)
