"""Bounds and multiples as tables, exact for numbers with any number of digits.

Most tables leave numbers with an exponent undecided, except for bounds of zero, which only need a
sign. ``multiples_of_power`` also follows exponents. What matters there is the least exponent that
makes the number whole: that of ``12.50`` is 1, that of ``1200`` is -2, and zero is whole with any.
Exponents are compared with it digit by digit.

All tables are cached and shared, so they must not be changed.
"""

from __future__ import annotations

import functools
import math
import threading
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
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
    "MAX_PLACES",
    "Divisor",
    "bound_table",
    "multiples_of_power",
    "multiples_table",
    "plain_integers",
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
        table[start, ANY_DIGIT] = less  # a number with a smaller absolute value is greater
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


MAX_FRACTION_DIGITS: Final = 17
"""Digits after the point that may precede an exponent, unless the power of ten has more."""
MAX_PLACES: Final = 32
"""The most decimal places of a power of ten: the table grows with their square."""
MAX_WHOLE_ZEROS: Final = 4
"""Zeros at the end of a whole number that a negative exponent may shift behind the point."""


@functools.lru_cache(maxsize=16)
def multiples_of_power(places: int, *, reject_others: bool) -> NumberTable:
    """Return the multiples of ``10**-places``, in spellings with and without an exponent.

    With ``reject_others``, all other numbers fail. Without it, other numbers with an exponent are
    left undecided, and all numbers without one hold: another table decides those. Exponents after
    more digits than the limits of this module are undecided. ``places`` is at most MAX_PLACES
    (``numbers._follows_exponents``).
    """
    return _PowerTable(places).build(reject_others=reject_others)


class _Row(IntEnum):
    """The first rows of the table of ``multiples_of_power``.

    Those from MULTIPLE to UNDECIDED_NEXT are inside an exponent, those named LONG after more digits
    behind the point than are counted.
    """

    START = 0
    """Nothing was read, or a minus."""
    MULTIPLE = 1
    """A multiple, whatever digits follow."""
    OTHER = 2
    """No multiple, whatever digits follow."""
    MULTIPLE_NEXT = 3
    """No multiple yet, but one after any further digit."""
    OTHER_NEXT = 4
    """Still a multiple, but none after any further digit."""
    UNDECIDED_NEXT = 5
    """Still a multiple, and undecided after any further digit."""
    LONG_MULTIPLE = 6
    """A multiple; an exponent would be undecided."""
    LONG_OTHER = 7
    """No multiple; an exponent would be undecided."""


class _PowerTable:
    """Builds the table of ``multiples_of_power``.

    Numbers that are whole from the same least exponent on are of one *kind*. The rows after those
    of ``_Row``, as arrays of row numbers::

        whole     [zeros]         by the zeros that end the digits so far (the last: or more)
        fraction  [kind, digits]  by the number of digits after the point; the last kind is zero
        letter    [kind]          after the "e"
        plus      [kind, value]   by the value of the exponent so far, which is positive
        minus     [kind, value]   by its magnitude, if it is negative

    For example ``12.50e-1`` with ``places`` 1. The kind named 1 is whole from exponent 1 on, and a
    multiple of 0.1 from exponent 0 on, so it is none with exponent -1::

        1, 2    whole[0 zeros]
        .       fraction[kind 0, 0 digits]
        5, 0    fraction[kind 1, 1 digit], fraction[kind 1, 2 digits]
        e, -    letter[kind 1], minus[kind 1, value 0]
        1       OTHER
    """

    def __init__(self, places: int) -> None:
        max_digits = max(MAX_FRACTION_DIGITS, places)
        least = np.arange(-MAX_WHOLE_ZEROS, max_digits + 1)
        kinds = len(least)
        self.needed = least - places
        """By kind, the least exponent with which a number is a multiple."""
        self.values = int(np.abs(self.needed).max()) // 10 + 1
        """The number of exponents that have rows: those to which a digit may still be added."""
        self.size = len(_Row)
        self.whole = self._add_rows(MAX_WHOLE_ZEROS + 1)
        self.fraction = self._add_rows(kinds + 1, max_digits + 1)
        self.letter = self._add_rows(kinds)
        self.plus = self._add_rows(kinds, self.values)
        self.minus = self._add_rows(kinds, self.values)
        self.table = np.full((self.size, WIDTH), DEAD, dtype=np.int32)
        self.fails_plain = np.append(self.needed > 0, False)
        """By kind, and for zero: whether a number without an exponent is no multiple."""

    def _add_rows(self, *shape: int) -> NDArray[np.int64]:
        """Return the numbers of as many new rows."""
        first, self.size = self.size, self.size + math.prod(shape)
        return np.arange(first, self.size).reshape(shape)

    def build(self, *, reject_others: bool) -> NumberTable:
        """Return the table, whose arrays are those of this object; to be called once."""
        self._write_whole()
        self._write_fraction()
        self._write_exponent()
        return NumberTable(self.table, self._labels(reject_others=reject_others))

    def _write_whole(self) -> None:
        """Write the moves from the start and from digits before the point."""
        table, whole, fraction = self.table, self.whole, self.fraction
        zero = fraction[-1, 0]  # after "0" and after "0." the same follows
        table[_Row.START, MINUS], table[_Row.START, 0], table[zero, POINT] = _Row.START, zero, zero
        table[[_Row.START, *whole], NONZERO] = whole[0]
        table[whole, 0] = np.append(whole[1:], whole[-1])
        # The kind of ``n`` zeros at the end is that of the least exponent -n.
        table[whole, POINT] = fraction[MAX_WHOLE_ZEROS::-1, 0]
        table[whole, LETTER] = self.letter[MAX_WHOLE_ZEROS::-1]

    def _write_fraction(self) -> None:
        """Write the moves from digits after the point."""
        table, fraction = self.table, self.fraction
        # A nonzero ``n``-th digit leads to the kind with the least exponent ``n``: kinds are in the
        # order of their exponents, from -MAX_WHOLE_ZEROS on.
        after_nonzero = np.diag(fraction[MAX_WHOLE_ZEROS + 1 : -1, 1:])
        table[fraction[:, :-1], 0] = fraction[:, 1:]
        table[fraction[:, :-1], NONZERO] = after_nonzero[:, None]
        last = fraction[:, -1]
        table[last, 0] = np.where(self.fails_plain, _Row.LONG_OTHER, _Row.LONG_MULTIPLE)
        # No number with a nonzero digit beyond ``max_digits``, at least ``places``, is a multiple.
        table[last, NONZERO] = _Row.LONG_OTHER
        table[_Row.LONG_MULTIPLE, 0] = _Row.LONG_MULTIPLE
        table[_Row.LONG_MULTIPLE, NONZERO] = _Row.LONG_OTHER
        table[_Row.LONG_OTHER, ANY_DIGIT] = _Row.LONG_OTHER
        table[fraction[:-1], LETTER] = self.letter[:, None]
        table[fraction[-1], LETTER] = _Row.MULTIPLE

    def _write_exponent(self) -> None:
        """Write the moves from the letter of an exponent, and from its digits."""
        table, plus, minus = self.table, self.plus, self.minus
        table[_Row.MULTIPLE], table[_Row.OTHER] = _Row.MULTIPLE, _Row.OTHER
        table[_Row.MULTIPLE_NEXT, ANY_DIGIT] = _Row.MULTIPLE
        table[_Row.OTHER_NEXT, ANY_DIGIT] = _Row.OTHER
        value = 10 * np.arange(self.values)[:, None] + np.arange(10)  # [values, 10]: with the digit
        needed = self.needed[:, None, None]  # [kinds, 1, 1]
        table[plus, ANY_DIGIT] = np.select(
            [value >= needed, 10 * value >= needed],
            [_Row.MULTIPLE, _Row.MULTIPLE_NEXT],
            plus[:, :1, None] + value,
        )
        table[minus, ANY_DIGIT] = np.select(
            [value > -needed, 10 * value > -needed],
            [_Row.OTHER, _Row.OTHER_NEXT],
            minus[:, :1, None] + value,
        )
        # The first kind has more zeros at the end than are counted, so that a lower exponent might
        # do: what is OTHER for the others is undecided for it.
        counted = table[minus[0]]
        table[minus[0]] = np.select(
            [counted == _Row.OTHER, counted == _Row.OTHER_NEXT],
            [DEAD, _Row.UNDECIDED_NEXT],
            counted,
        )
        table[self.letter] = table[plus[:, 0]]
        table[self.letter, PLUS], table[self.letter, MINUS] = plus[:, 0], minus[:, 0]

    def _labels(self, *, reject_others: bool) -> NDArray[np.int32]:
        label = np.full(self.size, HOLDS, dtype=np.int32)
        if reject_others:
            label[self.fraction[self.fails_plain]] = label[_Row.LONG_OTHER] = FAILS
        other = FAILS if reject_others else DEAD
        label[[_Row.OTHER, _Row.MULTIPLE_NEXT]] = other
        label[self.plus] = np.where(self.needed > 0, other, HOLDS)[:, None]
        return label
