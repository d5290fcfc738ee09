"""Ranges of decimal numbers as automata over their spelling.

A number is written without exponent, without a plus sign and without leading zeros; ``-`` stands
only before a number that is not zero. Trailing zeros of a fraction are free: a model that writes
``19.90`` must not be pushed to ``19.901``.
"""

from __future__ import annotations

import functools
import operator
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from guided.automata.codepoints import CodePoints
from guided.automata.dfa import DEAD, MAX_DFA_STATES, Dfa, crawl, product
from guided.errors import LimitExceededError
from guided.grammar.json_grammar import Bound, NumberShape

__all__ = ["number_dfa", "number_text"]

_CHARACTERS = "-.0123456789"
_CLASSES = tuple(CodePoints.single(character) for character in _CHARACTERS)


def number_dfa(shape: NumberShape) -> Dfa:
    """The spellings of the numbers that ``shape`` allows; no states where it allows none."""
    parts = [_spelled(shape.integer)]
    if shape.low is not None:
        parts.append(_bounded(shape.low, is_low=True))
    if shape.high is not None:
        parts.append(_bounded(shape.high, is_low=False))
    if shape.multiple_of is not None:
        parts.append(_multiples(shape.multiple_of))
    return functools.reduce(lambda a, b: product(a, b, operator.and_), parts)


def number_text(value: Decimal) -> str:
    """The shortest spelling of a number, exact however many digits it has."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text in ("-0", "") else text


def _spelled(integer: bool) -> Dfa:
    """The grammar of numbers alone."""

    def step(state: _Spelling, index: int) -> _Spelling | None:
        part, negative, zero = state
        character = _CHARACTERS[index]
        if character == "-":
            return ("sign", True, True) if part == "start" else None
        if character == ".":
            behind_whole = part in ("zero", "digits") and not integer
            return ("point", negative, zero) if behind_whole else None
        zero = zero and character == "0"
        if part in ("start", "sign"):
            return ("zero" if zero else "digits", negative, zero)
        if part == "zero":
            return None
        return ("digits" if part == "digits" else "fraction", negative, zero)

    def accepts(state: _Spelling) -> bool:
        part, negative, zero = state
        return part in ("zero", "digits", "fraction") and not (negative and zero)

    return crawl(_CLASSES, ("start", False, True), step, accepts)


_Spelling: TypeAlias = tuple[str, bool, bool]
"""The part being written, whether behind a sign, and whether all digits so far are zeros."""

_Compared: TypeAlias = tuple[bool, str, int, int]
"""Whether behind a sign; "whole", "longer" (more whole digits than the bound) or "fraction"; digits
read of that part; and -1, 0 or 1 as the digits so far are below, equal to or above the bound's."""


def _bounded(bound: Bound, *, is_low: bool) -> Dfa:
    """Numbers on one side of a bound, spelled as ``_spelled`` allows; linear in its digits."""
    whole, _, fraction = number_text(bound.value.copy_abs()).partition(".")

    def step(state: _Compared, index: int) -> _Compared | None:
        negative, part, count, sign = state
        character = _CHARACTERS[index]
        if character == "-":
            return (True, "whole", 0, 0)
        if character == ".":
            return (negative, "fraction", 0, -1 if count < len(whole) else sign)
        if part == "longer" or (part == "whole" and count == len(whole)):
            return (negative, "longer", count, 1)
        digits = whole if part == "whole" else fraction
        if sign == 0:
            due = digits[count] if count < len(digits) else "0"
            sign = (character > due) - (character < due)
        return (negative, part, min(count + 1, len(digits)), sign)

    def accepts(state: _Compared) -> bool:
        negative, part, count, sign = state
        if negative != (bound.value < 0):
            order = -1 if negative else 1
        else:
            if part == "whole" and count < len(whole):
                sign = -1
            elif sign == 0 and fraction[count if part == "fraction" else 0 :]:
                sign = -1  # digits of the bound are left, and not all of them are zeros
            order = -sign if negative else sign
        return not bound.strict if order == 0 else (order > 0) == is_low

    return crawl(_CLASSES, (False, "whole", 0, 0), step, accepts)


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
