"""Bounds and multiples as tables, exact for numbers with any number of digits.

Most tables leave numbers with an exponent undecided, except for bounds of zero, which only need a
sign, and ``whole_exponents``.

All tables are cached and shared, so they must not be changed.
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
from guided.runtime.work_budget import spend

__all__ = [
    "Divisor",
    "bound_table",
    "multiples_table",
    "plain_integers",
    "whole_exponents",
]

_CACHE_BYTES: Final = 8 * 2**20
"""Bytes of cached tables of bounds; one of many digits takes half a megabyte."""
_EQUAL: Final = 0
_LESS: Final = 1
_MORE: Final = 2


@dataclass(frozen=True, slots=True)
class Divisor:
    """A divisor of numbers, ``count * 10**power``; ten does not divide ``count``."""

    count: int
    power: int


@cached(LRUCache(_CACHE_BYTES, lambda table: table.next.nbytes), lock=threading.Lock())
def bound_table(bound: Bound, *, is_low: bool) -> NumberTable:
    """Return the table of the numbers within a bound, which is the lower one if ``is_low``."""
    order = _order_table(bound.value)
    allowed = (order.label == (_MORE if is_low else _LESS)) | (
        (order.label == _EQUAL) & (not bound.strict)
    )
    return NumberTable(order.next, np.where(allowed, HOLDS, FAILS).astype(np.int32))


@cached(LRUCache(_CACHE_BYTES, lambda table: table.next.nbytes), lock=threading.Lock())
def _order_table(value: Decimal) -> NumberTable:
    """Return a table that compares numbers with ``value``: its labels are _LESS, _EQUAL and _MORE.

    Its size is linear in the digits of ``value``. Numbers with an exponent have no move, except if
    ``value`` is zero.
    """
    if value == 0:
        return _sign_table()
    spend(len(exact_text(value)))
    whole, _, fraction = exact_text(value.copy_abs()).partition(".")
    # For absolute values. ``wholes`` are the first of three rows (_EQUAL, _LESS, _MORE) for each
    # number of digits read before the point; ``after`` are the rows by the number of digits read
    # after the point, all equal so far; ``first`` is the row before the first digit.
    start, less, more, first = 0, 1, 2, 3
    wholes = first + 3 * np.arange(len(whole) + 1)
    after = int(wholes[-1]) + 3 + np.arange(len(fraction) + 1)
    table = np.full((after[-1] + 1, WIDTH), DEAD, dtype=np.int32)
    label = np.full(len(table), _LESS, dtype=np.int32)

    table[less, [*range(10), POINT]] = less
    table[more, [*range(10), POINT]] = more
    table[wholes[:-1], ANY_DIGIT] = wholes[1:, None] + _digit_orders(whole)
    for order in (_LESS, _MORE):
        table[wholes[:-1] + order, ANY_DIGIT] = wholes[1:, None] + order
    # No number begins with needless zeros, so one with more digits is greater.
    table[wholes[-1] + np.arange(3), ANY_DIGIT] = more
    table[first : wholes[-1], POINT] = less
    table[wholes[-1] + np.arange(3), POINT] = after[0], less, more
    # After the last digit only zeros are equal.
    following = np.append(after[1:], after[-1])
    order_after = _digit_orders(fraction + "0")
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
        table[start, ANY_DIGIT] = less  # labelled _MORE by now: without a minus it is greater
        table[start, MINUS] = first
    return NumberTable(table, label)


def _digit_orders(digits: str) -> NDArray[np.int64]:
    """Return how each of the ten digits compares with each of ``digits``: int64 ``[digits, 10]``.

    The values are _EQUAL, _LESS and _MORE, which are also offsets of rows in ``_order_table``.
    """
    expected = np.frombuffer(digits.encode(), dtype=np.uint8).astype(np.int64) - ord("0")
    sign = np.sign(np.arange(10) - expected[:, None])
    orders: NDArray[np.int64] = np.array((_EQUAL, _MORE, _LESS), dtype=np.int64)[sign]
    return orders


def _sign_table() -> NumberTable:
    """Return the table that compares numbers with zero, whatever their exponent.

    In the rows ``start`` and ``negative`` only zeros were read, in the latter after a minus. The
    first nonzero digit decides; if an exponent comes before it, the number is zero.
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
def plain_integers() -> NumberTable:
    """Return the table of the numbers written without a point and without an exponent."""
    table = np.full((2, WIDTH), 1, dtype=np.int32)
    table[0, [*range(10), MINUS]] = 0
    return NumberTable(table, np.array((HOLDS, FAILS), dtype=np.int32))


@functools.lru_cache(maxsize=8)
def multiples_table(
    divisor: Divisor, *, point_undecided: bool, exponents_hold: bool = False
) -> NumberTable:
    """Return the table of the multiples of a divisor; its rows are remainders of the digits read.

    With ``point_undecided``, multiples that are written with a point are left undecided. With
    ``exponents_hold``, all numbers with an exponent hold: another table decides them. The table
    grows with ``divisor.count``, which ``numbers._lists_multiples`` bounds.
    """
    count, zeros, places = divisor.count, max(divisor.power, 0), max(-divisor.power, 0)
    remainder, digit = np.arange(count), np.arange(10)
    # The first rows of blocks of ``count`` rows, one for each remainder. Before the point, by how
    # many of the zeros that must end the number are still missing, as remainders of the digits
    # without the zeros that were read: ``shift`` puts these back before the next digit. After the
    # point, by how many further digits count.
    whole = count * np.arange(zeros + 1)
    fraction = whole[-1] + count + count * np.arange(places + 1)
    failed, exponent = fraction[-1] + count, fraction[-1] + count + 1
    table = np.full((exponent + 1, WIDTH), DEAD, dtype=np.int32)
    label = np.full(len(table), FAILS, dtype=np.int32)
    spend(table.size // 32)

    for num_missing in range(zeros + 1):
        rows = whole[num_missing] + remainder
        shift = pow(10, zeros - num_missing + 1, count)
        table[rows, ANY_DIGIT] = whole[-1] + (remainder[:, None] * shift + digit) % count
        table[rows, 0] = (
            whole[num_missing - 1] + remainder if num_missing else remainder * 10 % count
        )
        table[rows, POINT] = failed if num_missing else fraction[-1] + remainder
    label[:count] = _labels_with_zeros(count, places)
    for further in range(1, places + 1):
        rows = fraction[further] + remainder
        table[rows, ANY_DIGIT] = fraction[further - 1] + (remainder[:, None] * 10 + digit) % count
    table[fraction[0] + remainder, ANY_DIGIT] = failed
    table[fraction[0], 0] = fraction[0]
    for further in range(places + 1):
        label[fraction[further] + remainder] = _labels_with_zeros(count, further)
    if point_undecided:
        label[fraction[0] : failed] = np.where(label[fraction[0] : failed] == HOLDS, DEAD, FAILS)
    table[failed, [*range(10), POINT]] = failed
    table[:, MINUS] = np.arange(len(table))
    if exponents_hold:
        table[:, LETTER] = exponent
        table[exponent], label[exponent] = exponent, HOLDS
    return NumberTable(table, label)


def _labels_with_zeros(count: int, places: int) -> NDArray[np.int32]:
    """Return by remainder whether it is a multiple after ``places`` more zeros: HOLDS or FAILS."""
    is_multiple = np.arange(count) * pow(10, places, count) % count == 0
    return np.where(is_multiple, HOLDS, FAILS).astype(np.int32)


@functools.cache
def whole_exponents() -> NumberTable:
    """Return the table of numbers with an exponent that are whole by their spelling: ``12e3``.

    It leaves all others with an exponent undecided. Those without one hold: another table decides
    them.
    """
    plain, fraction, letter, exponent = range(4)
    table = np.full((4, WIDTH), DEAD, dtype=np.int32)
    table[plain, [*range(10), MINUS]] = plain
    table[plain, POINT], table[plain, LETTER] = fraction, letter
    table[fraction, ANY_DIGIT] = fraction
    table[letter, [*range(10), PLUS]] = exponent
    table[exponent, ANY_DIGIT] = exponent
    return NumberTable(table, np.array((HOLDS, HOLDS, DEAD, HOLDS), dtype=np.int32))
