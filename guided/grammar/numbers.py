"""Ranges of decimal numbers as automata over their spelling.

A number is written without exponent, without a plus sign and without leading zeros; ``-`` stands
only before a number that is not zero. Trailing zeros of a fraction are free: a model that writes
``19.90`` must not be pushed to ``19.901``.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from guided.automata.codepoints import CodePoints
from guided.automata.dfa import DEAD, MAX_DFA_STATES, Dfa, dfa_from_regular, product
from guided.automata.regular import (
    EPSILON,
    NOTHING,
    Alternate,
    Chars,
    Concat,
    Regular,
    Repeat,
    literal,
    optional,
)
from guided.errors import LimitExceededError
from guided.grammar.json_grammar import Bound, NumberShape

__all__ = ["number_dfa"]


def _digits(low: int, high: int) -> Regular:
    return Chars(CodePoints.of([(0x30 + low, 0x30 + high)]) if low <= high else CodePoints(()))


_DIGIT = _digits(0, 9)
_ZEROS = Repeat(_digits(0, 0), 0, None)
_WHOLE = Alternate((_digits(0, 0), Concat((_digits(1, 9), Repeat(_DIGIT, 0, None)))))
_FRACTION = Concat((literal("."), Repeat(_DIGIT, 1, None)))


def number_dfa(shape: NumberShape) -> Dfa:
    """The spellings of the numbers that ``shape`` allows; no states where it allows none."""
    dfa = dfa_from_regular(_signed(shape.integer))
    if shape.low is not None:
        dfa = product(dfa, dfa_from_regular(_at_least(shape.low)), _both)
    if shape.high is not None:
        dfa = product(dfa, dfa_from_regular(_at_most(shape.high)), _both)
    if shape.multiple_of is not None:
        dfa = product(dfa, _multiples(shape.multiple_of), _both)
    return dfa


def _both(left: bool, right: bool) -> bool:
    return left and right


def _signed(integer: bool) -> Regular:
    tail: Regular = EPSILON if integer else optional(_FRACTION)
    positive = (
        _whole_above("0")
        if integer
        else Alternate(
            (
                Concat((_whole_above("0"), tail)),
                Concat((literal("0."), _fraction_above("", strict=True))),
            )
        )
    )
    return Alternate((Concat((_WHOLE, tail)), Concat((literal("-"), positive))))


def _at_least(bound: Bound) -> Regular:
    # Both sides are met with _signed, which leaves "-0" out and fractions where they belong.
    if bound.value > 0 or (bound.value == 0 and bound.strict):
        return _magnitude_at_least(bound.value, bound.strict)
    negative = Concat((literal("-"), _magnitude_at_most(-bound.value, bound.strict)))
    return Alternate((_magnitude_at_least(Decimal(0), False), negative))


def _at_most(bound: Bound) -> Regular:
    if bound.value < 0:
        return Concat((literal("-"), _magnitude_at_least(-bound.value, bound.strict)))
    negative = Concat((literal("-"), _magnitude_at_least(Decimal(0), False)))
    return Alternate((negative, _magnitude_at_most(bound.value, bound.strict)))


def _parts(value: Decimal) -> tuple[str, str]:
    whole, _, fraction = format(value, "f").partition(".")
    return whole.lstrip("0") or "0", fraction.rstrip("0")


def _magnitude_at_least(value: Decimal, strict: bool) -> Regular:
    """Numbers without sign that are ``>= value >= 0``, ``> value`` if strict."""
    whole, fraction = _parts(value)
    above = Concat((_whole_above(whole), optional(_FRACTION)))
    if fraction or strict:
        same = Concat((literal(whole), literal("."), _fraction_above(fraction, strict=strict)))
    else:
        same = Concat((literal(whole), optional(_FRACTION)))
    return Alternate((above, same))


def _magnitude_at_most(value: Decimal, strict: bool) -> Regular:
    """Numbers without sign that are ``<= value``, ``< value`` if strict; ``value >= 0``."""
    whole, fraction = _parts(value)
    below = Concat((_whole_below(whole), optional(_FRACTION)))
    same = Concat((literal(whole), literal("."), _fraction_below(fraction, strict=strict)))
    options: list[Regular] = [below, same]
    if fraction or not strict:
        options.append(literal(whole))
    return Alternate(tuple(options))


def _whole_above(whole: str) -> Regular:
    """Whole numbers above ``whole``: a digit more, or a first digit that is greater."""
    longer = Concat((_digits(1, 9), Repeat(_DIGIT, len(whole), None)))
    same_length = tuple(
        Concat(
            (
                literal(whole[:i]),
                _digits(int(digit) + 1, 9),
                Repeat(_DIGIT, len(whole) - i - 1, len(whole) - i - 1),
            )
        )
        for i, digit in enumerate(whole)
    )
    return Alternate((longer, *same_length))


def _whole_below(whole: str) -> Regular:
    """Whole numbers below ``whole``: fewer digits, or a first digit that is smaller."""
    shorter = [
        Concat((_digits(1 if length > 1 else 0, 9), Repeat(_DIGIT, length - 1, length - 1)))
        for length in range(1, len(whole))
    ]
    same_length = [
        Concat(
            (
                literal(whole[:i]),
                _digits(1 if i == 0 and len(whole) > 1 else 0, int(digit) - 1),
                Repeat(_DIGIT, len(whole) - i - 1, len(whole) - i - 1),
            )
        )
        for i, digit in enumerate(whole)
    ]
    return Alternate((*shorter, *same_length))


def _fraction_above(fraction: str, *, strict: bool) -> Regular:
    """Digits behind the point of numbers ``>= 0.fraction``, ``>`` if strict."""
    if not fraction:
        any_digits = Repeat(_DIGIT, 0, None)
        return Concat((_ZEROS, _digits(1, 9), any_digits)) if strict else any_digits
    digit = int(fraction[0])
    greater = Concat((_digits(digit + 1, 9), Repeat(_DIGIT, 0, None)))
    same = Concat((_digits(digit, digit), _fraction_above(fraction[1:], strict=strict)))
    return Alternate((greater, same))


def _fraction_below(fraction: str, *, strict: bool) -> Regular:
    """At least one digit behind the point of numbers ``<= 0.fraction``, ``<`` if strict."""
    if not fraction:
        return NOTHING if strict else Concat((_digits(0, 0), _ZEROS))
    digit = int(fraction[0])
    smaller = Concat((_digits(0, digit - 1), Repeat(_DIGIT, 0, None)))
    rest = _fraction_below(fraction[1:], strict=strict)
    # To end here is to be smaller as long as digits of the bound remain: they are not all zeros.
    same = rest if strict and len(fraction) == 1 else optional(rest)
    return Alternate((smaller, Concat((_digits(digit, digit), same))))


def _multiples(divisor: int) -> Dfa:
    """Whole numbers that ``divisor`` divides, signed or not: a state for each remainder."""
    if divisor + 2 > MAX_DFA_STATES:
        raise LimitExceededError(
            f"multipleOf {divisor} is above {MAX_DFA_STATES - 2}", limit=MAX_DFA_STATES - 2
        )
    classes = tuple(CodePoints.single(character) for character in "-0123456789")
    table = np.full((divisor + 2, 11), DEAD, dtype=np.int32)
    table[0, 0] = 1  # state 0: start, state 1: behind the sign, state 2 + r: remainder r
    digits = np.arange(10)
    table[:2, 1:] = 2 + digits % divisor
    remainders = np.arange(divisor)[:, None]
    table[2:, 1:] = 2 + (remainders * 10 + digits) % divisor
    accepting = np.zeros(divisor + 2, dtype=np.bool_)
    accepting[2] = True
    return Dfa(classes, table, accepting)
