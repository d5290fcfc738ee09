"""Punycode (RFC 3492) as a graph: the numbers of which a text is made, and what each leads to.

Punycode says code points in ascending order. Each comes as one number: how far to go on from the
last one, counting every place in every text between them. Numbers are written lowest digit first,
and how many digits one has is told by a *bias*, which follows from the number before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from guided.regular.codepoints import CodePoints
from guided.regular.expression import Graph

__all__ = ["END", "FIRST", "FIRST_BIAS", "Choice", "GraphWriter", "adapted"]

FIRST: Final = 128
"""The code point from which the first number counts."""
FIRST_BIAS: Final = 72
END: Final = 0
"""The state of a ``GraphWriter`` in which texts end."""

# RFC 3492, section 5.
_BASE: Final = 36
_LEAST: Final = 1
_MOST: Final = 26
_SKEW: Final = 38
_DAMP: Final = 700

Choice: TypeAlias = tuple[int, int, int]
"""Numbers from the first to the second, both included, lead to the state that is the third."""


def adapted(number: int, length: int, *, first: bool = False) -> int:
    """The bias behind a number that made a text of ``length`` code points (section 6.1)."""
    number //= _DAMP if first else 2
    number += number // length
    bias = 0
    while number > (_BASE - _LEAST) * _MOST // 2:
        number //= _BASE - _LEAST
        bias += _BASE
    return bias + (_BASE - _LEAST + 1) * number // (number + _SKEW)


class GraphWriter:
    """Lays down states and the moves between them; those behind which the same follows are one."""

    def __init__(self) -> None:
        self._count = 1
        self._moves: list[tuple[int, CodePoints, int]] = []
        self._numbers: dict[tuple[tuple[Choice, ...], int], int] = {}

    def state(self) -> int:
        """A new state, without moves."""
        self._count += 1
        return self._count - 1

    def move(self, source: int, chars: CodePoints, target: int) -> None:
        """A move from one state to another; there may be several for a character."""
        if chars:
            self._moves.append((source, chars, target))

    def number(self, choices: Sequence[Choice], bias: int) -> int:
        """The state in which a number begins; ``choices`` may overlap."""
        return self._digit(tuple(choices), _BASE - bias)

    def graph(self, start: int) -> Graph:
        """All texts from a state to the end."""
        return Graph.of(self._count, self._moves, start, END)

    def _digit(self, choices: tuple[Choice, ...], reach: int) -> int:
        # number = digit + (base - threshold) * rest; digits below the threshold are the last ones.
        reach = min(reach, _MOST)
        known = self._numbers.get((choices, reach))
        if known is not None:
            return known
        state = self._numbers[choices, reach] = self.state()
        threshold = max(reach, _LEAST)
        for low, high, target in choices:
            if low < threshold:
                self.move(state, _digits(low, min(high, threshold - 1)), target)
        rests = _rests(choices, threshold)
        digits = sorted(rests)
        for digit, after in zip(digits, [*digits[1:], _BASE], strict=True):
            if rests[digit]:
                target = self._digit(tuple(rests[digit]), reach + _BASE)
                self.move(state, _digits(digit, after - 1), target)
        return state


def _rests(choices: Sequence[Choice], threshold: int) -> dict[int, list[Choice]]:
    """What is left of the numbers behind a digit that is not the last one.

    Only digits behind which it is not what it is behind the digit before.
    """
    weight = _BASE - threshold
    first = [threshold + (low - threshold) % weight for low, _, _ in choices]
    beyond = [threshold + (high + 1 - threshold) % weight for _, high, _ in choices]
    rests: dict[int, list[Choice]] = {digit: [] for digit in (threshold, *first, *beyond)}
    for (low, high, target), start, stop in zip(choices, first, beyond, strict=True):
        found: Iterable[int] = list(rests)
        if high - low + 1 < weight:
            found = (
                range(start, stop)
                if start < stop
                else (*range(threshold, stop), *range(start, _BASE))
            )
        for digit in found:
            if digit in rests and high >= digit:
                # ceil((low - digit) / weight), but no number below zero
                least = max(0, -((digit - low) // weight))
                rests[digit].append((least, (high - digit) // weight, target))
    return rests


@functools.cache
def _digits(low: int, high: int) -> CodePoints:
    """The letters stand for 0 to 25, the digits for 26 to 35."""
    ranges = []
    if low < 26:
        ranges.append((0x61 + low, 0x61 + min(high, 25)))
    if high > 25:
        ranges.append((0x30 + max(low, 26) - 26, 0x30 + high - 26))
    return CodePoints.of(ranges)
