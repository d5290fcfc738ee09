"""Numbers as automata over their spellings in JSON (RFC 8259, section 6), exact in decimals.

Canonical spellings have no exponent, no ``-0`` and, where the number has to be whole, no point;
zeros at the end of a fraction are free: a model that writes ``19.90`` must not be pushed to
``19.901``. With ``Spelling.ANY`` every spelling without exponent counts by its value: ``1.0``,
``-0``. A spelling with exponent is followed where that takes a small automaton:

- where no condition is set, or only bounds of zero, which are about the sign;
- without bounds, under ``integer`` and under a ``multiple_of`` that divides 1, for numbers that are
  whole by their spelling: digits with an exponent that is not negative;
- for listed numbers, in the spellings that programs write: ``1e-07``, ``1.5e+16``.

Integers of draft 4 are recognised by their spelling: only digits, so that ``1.0`` and ``1e0`` are
none. All other spellings are undecided: they neither hold nor fail, and so are never allowed.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from cachetools import LRUCache, cached

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Bound, NumberChoices, Numbers
from guided.json_schema.formulas.key_size import key_size
from guided.json_schema.formulas.number_conditions import (
    Divisor,
    bound_table,
    multiples_table,
    plain_integers,
    whole_exponents,
)
from guided.json_schema.formulas.number_spellings import (
    exact_text,
    listed_numbers,
    number_syntax,
    significant_digits,
)
from guided.json_schema.formulas.number_tables import NumberTable, drop_failures, intersect
from guided.regular.dfa import Dfa
from guided.regular.minimize import minimize
from guided.runtime.work_budget import spend, with_pauses, without_gil
from guided.spec import Spelling
from guided.spec.json_options import MAX_DIGITS

__all__ = [
    "MAX_LISTED_MULTIPLES",
    "digit_limit",
    "number_dfa",
    "number_fits",
    "number_verdicts",
    "omits_multiples",
]

_CACHE_BYTES: Final = 64 * 2**20
"""Bytes of cached automata with their assertions; one of long numbers takes megabytes."""
_MIN_DFA_BYTES: Final = 1_000
"""The fewest bytes that an automaton counts as."""
_dfas: Final[LRUCache[Hashable, tuple[Dfa, int]]] = LRUCache(
    _CACHE_BYTES, getsizeof=lambda kept: kept[1]
)
"""Automata, and about how many bytes each takes together with its assertion."""
MAX_LISTED_MULTIPLES: Final = 200
"""The number of multiples allowed of a divisor with too many remainders for an automaton."""
_MAX_STATES: Final = 20_000
"""The most states of an automaton that computes remainders."""
_MAX_ESTIMATE: Final = 200_000
"""The most states by the estimate of an automaton that is built to count them."""
_MAX_STATES_BY_DIGITS: Final = 5_000
"""The most states of one that also counts the digits of the whole part."""
NumberAssertion: TypeAlias = Numbers | NumberChoices


def number_fits(assertion: NumberAssertion, value: Decimal) -> bool:
    """Return whether the assertion holds of a number, exactly.

    Only the value counts: ``number_dfa`` may leave out some of these numbers, and never includes
    others.
    """
    if isinstance(assertion, NumberChoices):
        return value in assertion.values
    low, high, divisor = assertion.low, assertion.high, _divisor(assertion)
    if low is not None and not (value > low.value or (value == low.value and not low.strict)):
        return False
    if high is not None and not (value < high.value or (value == high.value and not high.strict)):
        return False
    return divisor is None or _is_multiple(divisor, value)


def omits_multiples(assertion: NumberAssertion) -> bool:
    """Return whether the automaton of an assertion leaves out multiples of its divisor.

    It does if the divisor is so large that only the multiples nearest to zero are listed. Numbers
    left out for their digits or their spelling do not count.
    """
    if not isinstance(assertion, Numbers) or not _lists_multiples(assertion):
        return False
    return not all(_nearest_multiples(assertion)[1])


def digit_limit(assertions: Iterable[NumberAssertion], max_digits: int | None) -> int | None:
    """Return the limit of digits on either side of the point for automata to be combined.

    It is ``max_digits``, or more if a number in an assertion needs more. Automata that will be
    combined must have the same limit, or one would exclude numbers near a bound of another.
    """
    limits = digit_limits(
        (value for assertion in assertions for value in _constants(assertion)), max_digits
    )
    return None if limits is None else max(limits)


def digit_limits(values: Iterable[Decimal], max_digits: int | None) -> tuple[int, int] | None:
    """Return the limits of digits before and after the point; ``None`` without ``max_digits``.

    They exceed ``max_digits`` if one of the ``values``, which the schema gives, needs more digits.
    Raises LimitExceededError for a value of too many digits in any case.
    """
    values = tuple(values)
    # Also for what is done with a list of them elsewhere: its automaton, and the size of its key.
    spend(3 * len(values))
    for value in with_pauses(values):
        _check_digits(value)
    if max_digits is None:
        return None
    most_whole, most_fraction = max_digits, max_digits
    for value in with_pauses(values):
        # One digit more: between 99.9 and 100 lies 99.91, above 99 lies 100.
        whole, _, fraction = exact_text(value.copy_abs()).partition(".")
        most_whole = max(most_whole, len(whole) + 1 if len(whole) >= max_digits else 0)
        needed = len(fraction) + 1 if len(fraction) >= max_digits else 0
        most_fraction = max(most_fraction, needed)
    return most_whole, most_fraction


def _check_digits(value: Decimal) -> None:
    """Raise LimitExceededError for a number whose automaton would have too many states.

    To be called before the number is written out: ``1E+999999`` has a million digits.
    """
    if max(abs(value.adjusted()), len(value.as_tuple().digits)) > MAX_DIGITS:
        raise LimitExceededError(
            f"a number of the schema has more than {MAX_DIGITS} digits",
            limit=MAX_DIGITS,
            hint="use a number with fewer digits",
        )


def number_dfa(assertion: NumberAssertion, spelling: Spelling, max_digits: int | None) -> Dfa:
    """Return the automaton of the numbers that the assertion allows, labelled HOLDS.

    ``max_digits`` bounds the digits on either side of the point, except for what the assertion
    needs and for the whole part of multiples of large divisors. Spellings that it does not accept
    are not all forbidden: ``number_verdicts`` tells which are. The results of both are cached, and
    must not be changed. Both raise LimitExceededError for numbers of too many digits, and for
    automata that grow too large.
    """
    return _kept(assertion, spelling, max_digits, fails=False)[0]


def number_verdicts(assertion: NumberAssertion, spelling: Spelling, max_digits: int | None) -> Dfa:
    """Return the automaton of all numbers, labelled HOLDS or FAILS; it rejects undecided ones."""
    return _kept(assertion, spelling, max_digits, fails=True)[0]


@cached(_dfas, lock=threading.Lock())
def _kept(
    assertion: NumberAssertion, spelling: Spelling, max_digits: int | None, *, fails: bool
) -> tuple[Dfa, int]:
    """Return an automaton, and about how many bytes it takes together with its assertion."""
    dfa = _build_dfa(assertion, spelling, max_digits, fails=fails)
    return dfa, _MIN_DFA_BYTES + dfa.next.nbytes + key_size(assertion)


def _build_dfa(
    assertion: NumberAssertion, spelling: Spelling, max_digits: int | None, *, fails: bool
) -> Dfa:
    """Return the intersection of the syntax of numbers and each condition of the assertion.

    With ``fails``, numbers that break a condition are accepted too, labelled FAILS.
    """
    canonical = spelling is Spelling.CANONICAL
    most_whole, most_fraction = digit_limits(_constants(assertion), max_digits) or (None, None)
    has_equal_states = False
    if isinstance(assertion, NumberChoices):
        conditions = [listed_numbers(assertion.values, shortest=canonical)]
    elif _lists_multiples(assertion):
        listed, (from_first, to_last) = _nearest_multiples(assertion)
        conditions = [listed_numbers(listed, shortest=canonical)]
        # Numbers beyond the listed ones are undecided if there are more multiples.
        listed_range = Numbers(
            low=None if from_first else Bound(listed[0]),
            high=None if to_last else Bound(listed[-1]),
        )
        conditions += map(drop_failures, _bound_tables(listed_range))
    else:
        conditions = [*_bound_tables(assertion), *_multiple_tables(assertion, canonical=canonical)]
        states = _estimate_states(assertion)
        has_equal_states = fails and states > _MAX_STATES
        # Counting digits multiplies the states that compute remainders.
        if states > 1 and states * (most_whole or 1) > _MAX_STATES_BY_DIGITS:
            most_whole = None
    if isinstance(assertion, Numbers) and assertion.by_spelling and not canonical:
        conditions.append(plain_integers())
    syntax = number_syntax(canonical, most_whole, most_fraction)
    dfa = intersect([syntax, *conditions], fails=fails)
    if not has_equal_states:
        return dfa
    # Beyond a bound no remainder matters, so most states are equal: merging them saves more time
    # where the automaton is combined with others than it takes.
    spend(dfa.next.size // 8)
    with without_gil(dfa.next.size // 8):
        return Dfa(dfa.classes, *minimize(dfa.next, dfa.label))


def _bound_tables(assertion: Numbers) -> list[NumberTable]:
    """Return a table for each bound."""
    low, high = assertion.low, assertion.high
    tables = [] if low is None else [bound_table(low, is_low=True)]
    return tables if high is None else [*tables, bound_table(high, is_low=False)]


def _multiple_tables(assertion: Numbers, *, canonical: bool) -> list[NumberTable]:
    """Return the tables for the divisor of an assertion, which is 1 for integers.

    The table of a divisor leaves numbers with an exponent undecided. If there are no bounds and
    every whole number is a multiple, as of 1 and 0.25, a second table decides those that are whole
    by their spelling. Canonical integers have no point: ``point_undecided`` leaves those that are
    written with one undecided.
    """
    divisor = _divisor(assertion)
    if divisor is None:
        return []
    has_bounds = assertion.low is not None or assertion.high is not None
    holds_wholes = divisor.power <= 0 and pow(10, -divisor.power, divisor.count) == 0
    if canonical or has_bounds or not holds_wholes:
        return [multiples_table(divisor, point_undecided=canonical and divisor.power >= 0)]
    return [
        multiples_table(divisor, point_undecided=False, exponents_hold=True),
        whole_exponents(),
    ]


def _constants(assertion: NumberAssertion) -> list[Decimal]:
    """Return the numbers that occur in an assertion."""
    if isinstance(assertion, NumberChoices):
        return list(assertion.values)
    bounds = [bound.value for bound in (assertion.low, assertion.high) if bound is not None]
    return bounds if assertion.multiple_of is None else [*bounds, assertion.multiple_of]


def _divisor(assertion: Numbers) -> Divisor | None:
    """Return what the number has to be a multiple of; ``None`` for an assertion without that.

    An integer that is a multiple of a number is one of the least common multiple of that and 1. A
    divisor is above 0 (``keywords.POSITIVE``). Ten never divides ``count``, as significant digits
    do not end in 0, so divisors of the same multiples are equal.
    """
    if assertion.multiple_of is None:
        return Divisor(1, 0) if assertion.integer else None
    digits, power = significant_digits(assertion.multiple_of)
    count = int(digits)
    if assertion.integer and power < 0:
        # lcm(1, count / 10**p) = count / gcd(count, 10**p)
        count //= math.gcd(count, 10**-power)
        power = 0
    return Divisor(count, power)


def _is_multiple(divisor: Divisor, value: Decimal) -> bool:
    """Return whether a number is a multiple of ``divisor``, exactly."""
    digits, last = significant_digits(value)
    if not digits:
        return True
    # As ``digits`` do not end in 0, a number with places after the divisor's last is no multiple.
    shift = last - divisor.power
    # Zeros beyond the factors of the divisor change nothing, and 1E+999999 would have too many.
    shift = min(shift, divisor.count.bit_length())
    return shift > -1 and int(digits) * 10**shift % divisor.count == 0


def _estimate_states(assertion: Numbers) -> int:
    """Return about how many states the automaton of an assertion may have, often far too many.

    If there are too many, multiples may be listed (``_lists_multiples``), and digits before the
    point are not counted (``_build_dfa``). So changing the estimate may change which numbers are
    allowed.
    """
    divisor = _divisor(assertion)
    if divisor is None or divisor.count == 1:
        return 1
    ends = [bound.value for bound in (assertion.low, assertion.high) if bound and bound.value]
    same = len(ends) == 2 and (ends[0] < 0) == (ends[1] < 0)
    digits = max((len(exact_text(end.copy_abs())) for end in ends), default=0)
    return _num_remainders(divisor) * (1 + digits * (3 if same else 2))


def _num_remainders(divisor: Divisor) -> int:
    """Return about how many states compute the remainders of numbers without bounds."""
    return divisor.count * (abs(divisor.power) + 1)


@functools.lru_cache(maxsize=512)
def _lists_multiples(assertion: Numbers) -> bool:
    """Return whether multiples are listed, because computing remainders takes too many states.

    They are also listed with fewer states if bounds on both sides leave so few that all are. The
    answer is the same for all spellings and digits: what allows a number in one automaton must not
    leave it undecided in another.
    """
    states = _estimate_states(assertion)
    if states <= _MAX_STATES_BY_DIGITS:
        return False
    bounded_twice = assertion.low is not None and assertion.high is not None
    if bounded_twice and all(_nearest_multiples(assertion)[1]):
        return True
    return states > _MAX_STATES and not _is_small(assertion)


def _is_small(assertion: Numbers) -> bool:
    """Return whether the automaton of an assertion is small though the estimate is high.

    With bounds it may be: where few digits are left to be read, few remainders can become 0. It is
    built to find out, unless that would take too long.
    """
    divisor = _divisor(assertion)
    assert divisor is not None, assertion  # only called for assertions with a divisor
    if _num_remainders(divisor) > _MAX_STATES or _estimate_states(assertion) > _MAX_ESTIMATE:
        return False
    conditions = [*_bound_tables(assertion), *_multiple_tables(assertion, canonical=True)]
    syntax = number_syntax(canonical=True, most_whole=None, most_fraction=None)
    return len(intersect([syntax, *conditions], fails=False)) <= _MAX_STATES


@functools.lru_cache(maxsize=64)
def _nearest_multiples(assertion: Numbers) -> tuple[tuple[Decimal, ...], tuple[bool, bool]]:
    """Return the multiples nearest to zero within the bounds, ascending.

    Also returns whether these include all multiples below the last of them, and all above the
    first. If bounds cross there are none, and both are true.
    """
    divisor = _divisor(assertion)
    assert divisor is not None, assertion  # only called for assertions with a divisor
    step = Fraction(divisor.count) * Fraction(10) ** divisor.power
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
    listed = tuple(Decimal(f"{n * divisor.count}E{divisor.power}") for n in numbers)
    return listed, (first == low, last == high)
