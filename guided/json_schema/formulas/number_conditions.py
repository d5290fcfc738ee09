"""Bounds and multiples as tables, exact for numbers with any number of digits.

The first tables leave numbers with exponent undecided, except for bounds of zero, which only need a
sign. ``whole_with_exponent`` also follows exponents. What matters there is the least exponent that
makes the number whole: that of ``12.50`` is 1, that of ``1200`` is -2, and zero is whole with any.
Exponents are compared with it digit by digit.

All tables are kept and shared, so they must not be changed.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from guided.json_schema.formulas.assertions import Bound
from guided.json_schema.formulas.number_spellings import exact_text
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
from guided.runtime.fuel import spend

__all__ = ["MAX_PLACES", "Grid", "bounded", "digits_alone", "multiples", "whole_with_exponent"]

_KEPT_BYTES: Final = 8 * 2**20
"""Bytes of the tables of bounds that are kept; one of many digits takes half a megabyte."""
_EQUAL: Final = 0
_LESS: Final = 1
_MORE: Final = 2


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of ``count * 10**power``; ten does not divide ``count``."""

    count: int
    power: int


@cached(LRUCache(_KEPT_BYTES, lambda table: table.next.nbytes), lock=threading.Lock())
def bounded(bound: Bound, *, is_low: bool) -> NumberTable:
    """Return the numbers on one side of a bound.

    The table is kept and shared, so it must not be changed.
    """
    order = _compared(bound.value)
    met = _MORE if is_low else _LESS
    held = (order.label == met) | ((order.label == _EQUAL) & (not bound.strict))
    return NumberTable(order.next, np.where(held, HOLDS, FAILS).astype(np.int32))


@cached(LRUCache(_KEPT_BYTES, lambda table: table.next.nbytes), lock=threading.Lock())
def _compared(value: Decimal) -> NumberTable:
    """Return a table whose labels are the order of a number and a value; linear in the digits.

    Kept and shared, as ``bounded`` is. Numbers with an exponent have no move, except for a value
    of zero.
    """
    if value == 0:
        return _sign()
    spend(len(exact_text(value)))
    whole, _, fraction = exact_text(value.copy_abs()).partition(".")
    # For magnitudes: 3 rows for each number of whole digits read, by their order, then one for each
    # number of digits after the point that were equal.
    start, less, more, first = 0, 1, 2, 3
    wholes = first + 3 * np.arange(len(whole) + 1)
    after = int(wholes[-1]) + 3 + np.arange(len(fraction) + 1)
    table = np.full((after[-1] + 1, WIDTH), DEAD, dtype=np.int32)
    label = np.full(len(table), _LESS, dtype=np.int32)

    table[less, [*range(10), POINT]] = less
    table[more, [*range(10), POINT]] = more
    table[wholes[:-1], ANY_DIGIT] = wholes[1:, None] + _orders(whole)
    for order in (_LESS, _MORE):
        table[wholes[:-1] + order, ANY_DIGIT] = wholes[1:, None] + order
    table[wholes[-1] + np.arange(3), ANY_DIGIT] = more
    table[first : wholes[-1], POINT] = less
    table[wholes[-1] + np.arange(3), POINT] = after[0], less, more
    # After the last digit only zeros are equal.
    following = np.append(after[1:], after[-1])
    order_after = _orders(fraction + "0")
    table[after, ANY_DIGIT] = np.where(order_after == _EQUAL, following[:, None], order_after)

    label[more] = label[wholes[-1] + _MORE] = _MORE
    label[after[-1]] = _EQUAL
    label[wholes[-1]] = _LESS if fraction else _EQUAL
    if value > 0:
        table[start] = table[first]
        table[start, MINUS] = less
    else:
        flipped = np.array((_EQUAL, _MORE, _LESS), dtype=np.int32)
        label = flipped[label]
        table[start, ANY_DIGIT] = less  # a number with a smaller magnitude is greater
        table[start, MINUS] = first
    return NumberTable(table, label)


def _orders(digits: str) -> NDArray[np.int64]:
    """Return where each digit in place of each leads; ``[digits, 10]``, less and more as rows.

    They are added to the first of three rows for equal, less and more, and so follow ``_EQUAL``,
    ``_LESS`` and ``_MORE``.
    """
    due = np.frombuffer(digits.encode(), dtype=np.uint8).astype(np.int64) - ord("0")
    sign = np.sign(np.arange(10) - due[:, None])
    found: NDArray[np.int64] = np.array((_EQUAL, _MORE, _LESS), dtype=np.int64)[sign]
    return found


def _sign() -> NumberTable:
    """Return the order of a number and zero, which no exponent changes.

    ``start`` and ``negative`` have read only zeros, the latter after a minus: the first nonzero
    digit decides the order, and if an exponent comes before one the number is zero.
    """
    start, negative, less, more, equal = range(5)
    table = np.full((5, WIDTH), DEAD, dtype=np.int32)
    table[start, [0, POINT]], table[start, NONZERO], table[start, MINUS] = start, more, negative
    table[negative, [0, POINT]], table[negative, NONZERO] = negative, less
    table[[start, negative], LETTER] = equal
    for decided in (less, more, equal):
        table[decided] = decided
    return NumberTable(table, np.array((_EQUAL, _EQUAL, _LESS, _MORE, _EQUAL), dtype=np.int32))


@functools.cache
def digits_alone() -> NumberTable:
    """Return the numbers that are written without a point and without an exponent."""
    table = np.full((2, WIDTH), 1, dtype=np.int32)
    table[0, [*range(10), MINUS]] = 0
    return NumberTable(table, np.array((HOLDS, FAILS), dtype=np.int32))


@functools.lru_cache(maxsize=8)
def multiples(grid: Grid, *, pointless: bool, exponents: bool = False) -> NumberTable:
    """Multiples, by the remainder of the digits read.

    With ``pointless``, numbers that are written with a point are left undecided. With
    ``exponents``, all numbers that have one hold: another table decides them. ``spend`` counts the
    cells: ``numbers._is_listed`` ensures that there are not too many. The table is kept and shared.
    """
    count, zeros, places = grid.count, max(grid.power, 0), max(-grid.power, 0)
    remainder, digit = np.arange(count), np.arange(10)
    # By remainder: before the point, how many of the zeros that have to end the number are still
    # missing; after it, how many further digits count.
    missing = count * np.arange(zeros + 1)
    left = missing[-1] + count + count * np.arange(places + 1)
    failed, scaled = left[-1] + count, left[-1] + count + 1
    table = np.full((scaled + 1, WIDTH), DEAD, dtype=np.int32)
    label = np.full(len(table), FAILS, dtype=np.int32)
    spend(table.size // 32)

    for lack in range(zeros + 1):
        rows = missing[lack] + remainder
        shift = pow(10, zeros - lack + 1, count)
        table[rows, ANY_DIGIT] = missing[-1] + (remainder[:, None] * shift + digit) % count
        table[rows, 0] = missing[lack - 1] + remainder if lack else remainder * 10 % count
        table[rows, POINT] = failed if lack else left[-1] + remainder
    label[:count] = _verdicts(count, places)
    for further in range(1, places + 1):
        rows = left[further] + remainder
        table[rows, ANY_DIGIT] = left[further - 1] + (remainder[:, None] * 10 + digit) % count
    table[left[0] + remainder, ANY_DIGIT] = failed
    table[left[0], 0] = left[0]
    for further in range(places + 1):
        label[left[further] + remainder] = _verdicts(count, further)
    if pointless:
        label[left[0] : failed] = np.where(label[left[0] : failed] == HOLDS, DEAD, FAILS)
    table[failed, [*range(10), POINT]] = failed
    table[:, MINUS] = np.arange(len(table))
    if exponents:
        table[:, LETTER] = scaled
        table[scaled], label[scaled] = scaled, HOLDS
    return NumberTable(table, label)


def _verdicts(count: int, places: int) -> NDArray[np.int32]:
    """Return for each remainder whether a multiple results when ``places`` more zeros count."""
    held = np.arange(count) * pow(10, places, count) % count == 0
    return np.where(held, HOLDS, FAILS).astype(np.int32)


MAX_FRACTION_DIGITS: Final = 17
"""Digits after the point of a number with exponent, or as many as the power of ten has."""
MAX_PLACES: Final = 32
"""The greatest power of ten: the table grows with its square."""
MAX_WHOLE_ZEROS: Final = 4
"""Zeros that end the digits before the point and that a negative exponent may take away."""


@functools.lru_cache(maxsize=16)
def whole_with_exponent(places: int, *, exact: bool) -> NumberTable:
    """Multiples of ``10**-places``; unless ``exact``, other numbers are left undecided.

    So are exponents after more digits than the limits of this module. The table is kept and shared.
    ``places`` is at most MAX_PLACES (``numbers._follows_exponents``).
    """
    deepest = max(MAX_FRACTION_DIGITS, places)
    least = np.arange(-MAX_WHOLE_ZEROS, deepest + 1)  # by kind: with this exponent it is whole
    wanted = least - places
    kinds, levels = len(least), int(np.abs(wanted).max()) // 10 + 1
    start, always, below, later, soon, unknown, deep, deep_below = range(8)
    # In an exponent: ``always``, ``below``: a multiple or none, whatever digits follow. ``later``:
    # none yet, always one after one more digit. ``soon``: still one, none after one more digit.
    # ``unknown``: one, and undecided after one more digit. After the point, with more digits than
    # are counted: ``deep`` for zeros only, which make a multiple, ``deep_below`` for others. Rows
    # by the zeros that end the digits before the point; after it, by the kind, where the last is
    # zero, and the digits there; then by kind and by the value of the exponent so far.
    wholes = 8 + np.arange(MAX_WHOLE_ZEROS + 1)
    after = wholes[-1] + 1 + np.arange((kinds + 1) * (deepest + 1)).reshape(kinds + 1, -1)
    letter = after[-1, -1] + 1 + np.arange(kinds)
    plus = letter[-1] + 1 + np.arange(kinds * levels).reshape(kinds, levels)
    minus = plus[-1, -1] + 1 + np.arange(kinds * levels).reshape(kinds, levels)
    table = np.full((minus[-1, -1] + 1, WIDTH), DEAD, dtype=np.int32)
    label = np.full(len(table), HOLDS, dtype=np.int32)

    table[start, MINUS], table[start, 0] = start, after[-1, 0]
    table[[start, *wholes], NONZERO] = wholes[0]
    table[wholes, 0] = np.append(wholes[1:], wholes[-1])
    table[wholes, POINT] = after[MAX_WHOLE_ZEROS::-1, 0]
    table[after[-1, 0], POINT] = after[-1, 0]  # after 0 and 0. the same follows

    plain_below = np.append(wanted > 0, False)
    table[after[:, :-1], 0] = after[:, 1:]
    table[after[:, :-1], NONZERO] = np.diag(after[MAX_WHOLE_ZEROS + 1 : -1, 1:])[:, None]
    table[after[:, -1], 0] = np.where(plain_below, deep_below, deep)
    table[after[:, -1], NONZERO] = table[[deep], NONZERO] = table[deep_below, ANY_DIGIT] = (
        deep_below
    )
    table[deep, 0] = deep

    table[wholes, LETTER] = letter[MAX_WHOLE_ZEROS::-1]
    table[after[:-1], LETTER] = letter[:, None]
    table[after[-1], LETTER] = always
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
        label[after[plain_below]] = label[deep_below] = FAILS
    label[[below, later]] = FAILS if exact else DEAD
    label[plus] = np.where(wanted > 0, label[below], HOLDS)[:, None]
    return NumberTable(table, label)
