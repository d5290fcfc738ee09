"""Numbers as automata over their spellings in JSON (RFC 8259, section 6), exact in decimals.

Canonical spellings have no exponent, no ``-0`` and, where the number has to be whole, no point;
zeros at the end of a fraction are free: a model that writes ``19.90`` must not be pushed to
``19.901``. With ``Spelling.ANY`` every spelling without exponent counts by its value: ``1.0``,
``-0``. A spelling with exponent is followed where that takes a small automaton:

- where nothing is asked, or, by bounds of zero, only a sign;
- under ``integer``, and under a ``multiple_of`` that divides 1, for the numbers that are whole
  (under ``0.01`` and other powers of ten: for all), within the limits of ``number_conditions``;
- for listed numbers, in the spellings that programs write: ``1e-07``, ``1.5e+16``.

An integer of draft 4 is one by its spelling: only digits, so that ``1.0`` and ``1e0`` are none. All
others are left out: they neither hold nor fail, so that nothing is allowed that is not decided.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from cachetools import LRUCache, cached

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Bound, NumberChoices, Numbers
from guided.json_schema.formulas.number_conditions import (
    MAX_PLACES,
    Grid,
    bounded,
    digits_alone,
    multiples,
    whole_with_exponent,
)
from guided.json_schema.formulas.number_spellings import chosen, exact_text, number_syntax, split
from guided.json_schema.formulas.number_tables import NumberTable, joined, only_holding
from guided.regular.dfa import Dfa
from guided.spec import Spelling

__all__ = [
    "MAX_LISTED_MULTIPLES",
    "digit_limit",
    "holds",
    "is_narrowed",
    "number_dfa",
    "number_verdicts",
]

MAX_DIGITS: Final = 2_000
"""Digits of a number in an assertion, on either side of the point."""
_KEPT_BYTES: Final = 32 * 2**20
"""Bytes of the automata that are kept; one of long numbers takes megabytes."""
_LEAST: Final = 1_000
"""Bytes that an automaton takes at least."""
MAX_LISTED_MULTIPLES: Final = 200
"""The multiples allowed of a divisor whose remainders are too many for an automaton."""
_MAX_STATES: Final = 20_000
"""States of an automaton that follows remainders."""
_MAX_STATES_BY_DIGITS: Final = 5_000
"""States of one that also counts the digits of the whole part."""
NumberAssertion: TypeAlias = Numbers | NumberChoices


def holds(assertion: NumberAssertion, value: Decimal) -> bool:
    """Return whether the assertion holds of a number, exactly.

    By value alone: ``number_dfa`` may leave out numbers that fulfil it, and never includes
    others.
    """
    if isinstance(assertion, NumberChoices):
        return value in assertion.values
    low, high, grid = assertion.low, assertion.high, _grid(assertion)
    if low is not None and not (value > low.value or (value == low.value and not low.strict)):
        return False
    if high is not None and not (value < high.value or (value == high.value and not high.strict)):
        return False
    return grid is None or _on_grid(grid, value)


def is_narrowed(assertion: NumberAssertion) -> bool:
    """Return whether multiples are left out: a large divisor lists only those nearest to zero.

    Limits on digits and spellings do not count. The result has to agree with what the automaton of
    the assertion accepts.
    """
    if not isinstance(assertion, Numbers) or not _is_listed(assertion):
        return False
    return not all(_multiples(assertion)[1])


def _follows_exponents(assertion: NumberAssertion) -> bool:
    """Return whether numbers with an exponent are decided, even if only the whole ones (``1e3``).

    Exponents are not followed under a bound other than 0, for which the sign is enough. Multiples
    are decided if every whole number is one, as for 1 and 0.25; see ``whole_with_exponent``.
    """
    if isinstance(assertion, NumberChoices):
        return False
    bounds = [bound for bound in (assertion.low, assertion.high) if bound is not None]
    grid = _grid(assertion)
    if grid is None:
        return all(bound.value == 0 for bound in bounds)
    if bounds or not 0 <= -grid.power <= MAX_PLACES:
        return False
    wholes: int = 10**-grid.power
    return wholes % grid.count == 0


def digit_limit(assertions: Iterable[NumberAssertion], max_digits: int | None) -> int | None:
    """Digits that numbers under all these assertions may need on a side, at least ``max_digits``.

    Automata that will be combined are made with one limit, or one cuts what a bound of another
    needs.
    """
    limits = _digit_limits(assertions, max_digits)
    return None if limits is None else max(limits)


def _digit_limits(
    assertions: Iterable[NumberAssertion], max_digits: int | None
) -> tuple[int, int] | None:
    """``digit_limit`` before and after the point, ``None`` for none; checks the numbers anyway.

    What the assertions need is kept even above ``max_digits``.
    """
    landmarks = [value for assertion in assertions for value in _landmarks(assertion)]
    for value in landmarks:
        _check_digits(value)
    if max_digits is None:
        return None
    most_whole, most_fraction = max_digits, max_digits
    for value in landmarks:
        # One digit more: between 99.9 and 100 lies 99.91, above 99 lies 100.
        whole, _, fraction = exact_text(value.copy_abs()).partition(".")
        most_whole = max(most_whole, len(whole) + 1 if len(whole) >= max_digits else 0)
        needed = len(fraction) + 1 if len(fraction) >= max_digits else 0
        most_fraction = max(most_fraction, needed)
    return most_whole, most_fraction


def _check_digits(value: Decimal) -> None:
    """Raise LimitExceededError for a number whose automaton would have too many states.

    Called before anything writes the number out: ``1E+999999`` has a short text.
    """
    if max(abs(value.adjusted()), len(value.as_tuple().digits)) > MAX_DIGITS:
        raise LimitExceededError(
            f"a number of the schema has more than {MAX_DIGITS} digits",
            limit=MAX_DIGITS,
            hint="use a number with fewer digits",
        )


@cached(LRUCache(_KEPT_BYTES, lambda dfa: _LEAST + dfa.next.nbytes), lock=threading.Lock())
def number_dfa(assertion: NumberAssertion, spelling: Spelling, max_digits: int | None) -> Dfa:
    """Return the spellings of the numbers that the assertion allows, labelled HOLDS.

    ``max_digits`` bounds the digits on either side of the point, except for what the assertion
    needs and for the whole part of multiples of large divisors. The complement is not what the
    assertion forbids: ``number_verdicts`` returns that. The results of both are kept, and not to be
    changed. Both raise LimitExceededError for numbers of too many digits, and for automata that
    grow too large.
    """
    return _dfa(assertion, spelling, max_digits, fails=False)


@cached(LRUCache(_KEPT_BYTES, lambda dfa: _LEAST + dfa.next.nbytes), lock=threading.Lock())
def number_verdicts(assertion: NumberAssertion, spelling: Spelling, max_digits: int | None) -> Dfa:
    """Return the spellings of all numbers, labelled HOLDS or FAILS; undecided ones are left out."""
    return _dfa(assertion, spelling, max_digits, fails=True)


def _dfa(
    assertion: NumberAssertion, spelling: Spelling, max_digits: int | None, *, fails: bool
) -> Dfa:
    """Return the syntax of numbers joined with a table for each condition of the assertion.

    With ``fails`` numbers that break a condition are kept, labelled FAILS.
    """
    canonical = spelling is Spelling.CANONICAL
    most_whole, most_fraction = _digit_limits((assertion,), max_digits) or (None, None)
    if isinstance(assertion, NumberChoices):
        conditions = [chosen(assertion.values, shortest=canonical)]
    elif _is_listed(assertion):
        listed, (from_first, to_last) = _multiples(assertion)
        conditions = [chosen(listed, shortest=canonical)]
        # Numbers beyond the listed ones are undecided, where there are more multiples.
        known = Numbers(
            low=None if from_first else Bound(listed[0]),
            high=None if to_last else Bound(listed[-1]),
        )
        conditions += map(only_holding, _bounds(known))
    else:
        conditions = [*_bounds(assertion), *_grids(assertion, canonical=canonical)]
        states = _states(assertion)
        # Digits are counted in states, once for each state that follows remainders.
        if states > 1 and states * (most_whole or 1) > _MAX_STATES_BY_DIGITS:
            most_whole = None
    if isinstance(assertion, Numbers) and assertion.literal and not canonical:
        conditions.append(digits_alone())
    syntax = number_syntax(canonical, most_whole, most_fraction)
    return joined([syntax, *conditions], fails=fails)


def _bounds(assertion: Numbers) -> list[NumberTable]:
    """Return a table for each bound."""
    low, high = assertion.low, assertion.high
    tables = [] if low is None else [bounded(low, is_low=True)]
    return tables if high is None else [*tables, bounded(high, is_low=False)]


def _grids(assertion: Numbers, *, canonical: bool) -> list[NumberTable]:
    """Return one table for whole numbers and multiples, two where exponents are followed as well.

    Canonical whole numbers have no point: ``pointless`` leaves those that are written with one
    undecided.
    """
    grid = _grid(assertion)
    if grid is None:
        return []
    if canonical or not _follows_exponents(assertion):
        return [multiples(grid, pointless=canonical and grid.power >= 0)]
    if grid.count == 1:
        return [whole_with_exponent(-grid.power, exact=True)]
    whole = whole_with_exponent(0, exact=False)
    return [multiples(grid, pointless=False, exponents=True), whole]


def _landmarks(assertion: NumberAssertion) -> list[Decimal]:
    if isinstance(assertion, NumberChoices):
        return list(assertion.values)
    bounds = [bound.value for bound in (assertion.low, assertion.high) if bound is not None]
    return bounds if assertion.multiple_of is None else [*bounds, assertion.multiple_of]


def _grid(assertion: Numbers) -> Grid | None:
    """Return what the number has to be a multiple of; ``None`` if no multiple is asked.

    A number that also has to be whole is a multiple of the least common multiple of that and 1. A
    divisor is above 0 (``keywords.POSITIVE``). Ten never divides ``count``, so equal multiples have
    equal grids.
    """
    if assertion.multiple_of is None:
        return Grid(1, 0) if assertion.integer else None
    digits, power = split(assertion.multiple_of)
    count = int(digits)
    if assertion.integer and power < 0:
        # lcm(1, count / 10**p) = count / gcd(count, 10**p)
        count //= math.gcd(count, 10**-power)
        power = 0
    while count % 10 == 0:
        count, power = count // 10, power + 1
    return Grid(count, power)


def _on_grid(grid: Grid, value: Decimal) -> bool:
    """Return whether a number is a multiple of ``count * 10 ** power`` of the grid, exactly."""
    digits, last = split(value)
    if not digits:
        return True
    shift = last - grid.power
    # Zeros beyond the factors of the divisor change nothing, and 1E+999999 would have too many.
    shift = min(shift, grid.count.bit_length())
    return shift > -1 and int(digits) * 10**shift % grid.count == 0


def _states(assertion: Numbers) -> int:
    """Return about the greatest number of states of the automaton that follows remainders.

    An estimate: where it is too large multiples are listed (``_is_listed``), or the digits before
    the point are not counted (``_dfa``), so changing it may change which numbers are allowed.
    """
    grid = _grid(assertion)
    if grid is None or grid.count == 1:
        return 1
    ends = [bound.value for bound in (assertion.low, assertion.high) if bound and bound.value]
    same = len(ends) == 2 and (ends[0] < 0) == (ends[1] < 0)
    digits = max((len(exact_text(end.copy_abs())) for end in ends), default=0)
    return grid.count * (abs(grid.power) + 1) * (1 + digits * (3 if same else 2))


@functools.lru_cache(maxsize=512)
def _is_listed(assertion: Numbers) -> bool:
    """Return whether multiples are listed, because following remainders takes too many states.

    Also with fewer states, if bounds on both sides leave few multiples, which are then all listed.
    """
    states = _states(assertion)
    if states > _MAX_STATES:
        return True
    bounded_twice = assertion.low is not None and assertion.high is not None
    return states > _MAX_STATES_BY_DIGITS and bounded_twice and all(_multiples(assertion)[1])


@functools.lru_cache(maxsize=64)
def _multiples(assertion: Numbers) -> tuple[tuple[Decimal, ...], tuple[bool, bool]]:
    """Return the multiples in range nearest to zero, ascending.

    Also returns whether these include all multiples below the last of them, and all above the
    first. There are none where bounds cross, and these are then all.
    """
    grid = _grid(assertion)
    assert grid is not None, assertion  # only asked of assertions with a divisor
    step = Fraction(grid.count) * Fraction(10) ** grid.power
    low = high = None
    if assertion.low is not None:
        steps = Fraction(assertion.low.value) / step
        low = math.ceil(steps) + (assertion.low.strict and steps.denominator == 1)
    if assertion.high is not None:
        steps = Fraction(assertion.high.value) / step
        high = math.floor(steps) - (assertion.high.strict and steps.denominator == 1)
    start = max(low, 0) if low is not None else 0
    start = min(start, high) if high is not None else start
    # A window of MAX_LISTED_MULTIPLES around ``start``, the multiple nearest to zero; where it
    # reaches beyond a bound it is moved back.
    half = MAX_LISTED_MULTIPLES // 2
    first = start - half if low is None else max(low, start - half)
    last = first + MAX_LISTED_MULTIPLES - 1
    if high is not None and last > high:
        last = high
        first = last - MAX_LISTED_MULTIPLES + 1
        first = first if low is None else max(low, first)
    numbers = range(first, last + 1)
    listed = tuple(Decimal(f"{n * grid.count}E{grid.power}") for n in numbers)
    return listed, (first == low, last == high)
