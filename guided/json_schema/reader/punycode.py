"""Punycode (RFC 3492) as a graph, and the A-labels (RFC 5890, section 2.3.2.1) that follow from it.

Punycode encodes code points in ascending order. Each becomes one number: how far it is from the
last one, counting every place in every text between them. Numbers are written lowest digit first,
and the number of digits depends on a *bias*, which follows from the number before.

What the Punycode of a label stands for is not regular: every number in it depends on the exact code
point and place of the one before. So these are the labels with one code point outside ASCII, and
short ones without ASCII in scripts whose letters lie side by side. All these letters are valid (RFC
5892), in any order, and none joins the one before it (NFC). Each graph is what follows "xn--".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from guided.regular.codepoints import CodePoints
from guided.regular.expression import Graph

__all__ = [
    "END",
    "FIRST",
    "FIRST_BIAS",
    "GraphWriter",
    "adapted",
    "hebrew_labels",
    "mixed_labels",
    "short_labels",
]

FIRST: Final = 128
"""The code point from which the first number counts."""
FIRST_BIAS: Final = 72
END: Final = 0
"""The state of a ``GraphWriter`` in which texts end."""
# RFC 3492, section 5.
_BASE: Final = 36
_LEAST: Final = 1
_GREATEST: Final = 26
_SKEW: Final = 38
_DAMP: Final = 700
Choice: TypeAlias = tuple[int, int, int]
"""Numbers from the first to the second, both included, lead to the state that is the third."""


def adapted(number: int, length: int, *, first: bool = False) -> int:
    """Return the bias after a number that made a text of ``length`` code points (section 6.1).

    The new code point is one of them; ``first`` is for the first number of a label.
    """
    number //= _DAMP if first else 2
    number += number // length
    bias = 0
    while number > (_BASE - _LEAST) * _GREATEST // 2:
        number //= _BASE - _LEAST
        bias += _BASE
    return bias + (_BASE - _LEAST + 1) * number // (number + _SKEW)


class GraphWriter:
    """Lays down states and the moves between them; states with the same future are one.

    A state may get moves until ``graph`` is called; END has none. A writer makes only one graph.
    """

    def __init__(self) -> None:
        self._count = 1  # END is there from the start
        self._moves: list[tuple[int, CodePoints, int]] = []
        self._numbers: dict[tuple[tuple[Choice, ...], int], int] = {}
        """By what the digits from here on depend on, the state that reads the next of them."""

    def state(self) -> int:
        """Return a new state, without moves."""
        self._count += 1
        return self._count - 1

    def move(self, source: int, chars: CodePoints, target: int) -> None:
        """Add a move from one state to another; there may be several for a character."""
        if chars:
            self._moves.append((source, chars, target))

    def number(self, choices: Sequence[Choice], bias: int) -> int:
        """Return the state in which a number begins; ``choices`` may overlap."""
        return self._digit(tuple(choices), _BASE - bias)

    def graph(self, start: int) -> Graph:
        """Return all texts from a state to the end."""
        return Graph.of(self._count, self._moves, start, END)

    def _digit(self, choices: tuple[Choice, ...], reach: int) -> int:
        """Return the state that reads the next digit of a number; its threshold follows ``reach``.

        One for all equal choices and thresholds: nothing else matters to the digits that follow. A
        state is recorded before its moves are made, so that it may lead back to itself.
        """
        # number = digit + (base - threshold) * rest; digits below the threshold are the last ones.
        reach = min(reach, _GREATEST)
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
    """Return what is left of the numbers after a digit that is not the last one.

    Only for digits after which it differs from what is left after the digit before. The smallest
    digit, ``threshold``, is always among them. Choices keep their order, so that equal rests are
    equal keys in ``_digit``.
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
    """Return the characters of digits ``low`` to ``high``: letters up to 25, digits up to 35.

    Both ends are included; there are no capital letters.
    """
    ranges = []
    if low < 26:
        ranges.append((0x61 + low, 0x61 + min(high, 25)))
    if high > 25:
        ranges.append((0x30 + max(low, 26) - 26, 0x30 + high - 26))
    return CodePoints.of(ranges)


_MAX_ASCII: Final = 30
_MAX_AROUND_DOT: Final = 12
_MAX_HEBREW: Final = 3
# The small letters of Latin 1, and digits of Arabic that are written from left to right.
_SINGLE = ((0xDF, 0xF6), (0xF8, 0xFF), (0x6F0, 0x6F9))
_MIDDLE_DOT = 0xB7
_HIRAGANA, _KATAKANA, _KATAKANA_DOT, _LONG_VOWEL = (
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
    0x30FB,
    0x30FC,
)
_IDEOGRAPHS = (0x4E00, 0x9FFF)
_HEBREW, _GERESH, _GERSHAYIM = (0x5D0, 0x5EA), 0x5F3, 0x5F4
_HYPHEN, _L = CodePoints.single("-"), CodePoints.single("l")
_LETTER_OR_DIGIT = CodePoints.of([(0x30, 0x39), (0x61, 0x7A)])


def mixed_labels() -> Graph:
    """Return one code point among ASCII letters and digits with hyphens between them.

    Spelled as all that is ASCII, a hyphen, and the number of the code point and its place.
    ``host_names._MOST_BESIDE`` depends on how long these get, and so on ``_MAX_ASCII``.
    """
    writer = GraphWriter()
    start = here = hyphen = writer.state()
    for length in range(1, _MAX_ASCII + 1):
        before, here = here, writer.state()
        for source in {before, hyphen}:
            writer.move(source, _LETTER_OR_DIGIT, here)
        hyphen = writer.state()
        if before != start:
            writer.move(before, _HYPHEN, hyphen)
        letters = [_anywhere(low, high, length, FIRST * (length + 1)) for low, high in _SINGLE]
        writer.move(here, _HYPHEN, writer.number(letters, FIRST_BIAS))
    _add_middle_dots(writer, start)
    return writer.graph(start)


def _add_middle_dots(writer: GraphWriter, start: int) -> None:
    """Add a dot in the first "ll" of a label (RFC 5892, appendix A.3), without hyphens.

    Added to the graph whose texts begin in ``start``, up to ``_MAX_AROUND_DOT`` characters around
    the dot.
    """
    other = _LETTER_OR_DIGIT & ~_L
    # After texts without "ll" that do not end in "l", and that do; after those with one: the state,
    # and the place in the first "ll".
    here, after_l = start, None
    doubled: list[tuple[int, int]] = []
    for length in range(1, _MAX_AROUND_DOT + 1):
        following = [(writer.state(), place) for _, place in doubled]
        for (source, _), (target, _) in zip(doubled, following, strict=True):
            writer.move(source, _LETTER_OR_DIGIT, target)
        states = writer.state(), writer.state()
        writer.move(here, other, states[0])
        writer.move(here, _L, states[1])
        if after_l is not None:
            writer.move(after_l, other, states[0])
            following.append((writer.state(), length - 1))
            writer.move(after_l, _L, following[-1][0])
        (here, after_l), doubled = states, following
        for state, place in doubled:
            number = (_MIDDLE_DOT - FIRST) * (length + 1) + place
            writer.move(state, _HYPHEN, writer.number([(number, number, END)], FIRST_BIAS))


def short_labels() -> Graph:
    """Return one code point, or two of Japanese of which at least one is no ideograph.

    Two letters are encoded in ascending order, as their numbers are; the second number determines
    which of them stands first.
    """
    writer = GraphWriter()
    singles = *_SINGLE, _HIRAGANA, _KATAKANA, _IDEOGRAPHS
    choices = [_anywhere(low, high, 0, FIRST) for low, high in singles]
    for letter in range(_HIRAGANA[0], _HIRAGANA[1] + 1):
        second = (letter, _HIRAGANA[1]), (_KATAKANA[0], _LONG_VOWEL), _IDEOGRAPHS
        choices.append(_before(writer, letter, second))
    for letter in range(_KATAKANA[0], _KATAKANA[1] + 1):
        choices.append(_before(writer, letter, ((letter, _LONG_VOWEL), _IDEOGRAPHS)))
    # The dot needs a neighbour of these scripts (RFC 5892, appendix A.7).
    choices.append(_before(writer, _KATAKANA_DOT, (_IDEOGRAPHS,)))
    return writer.graph(writer.number(choices, FIRST_BIAS))


def _before(writer: GraphWriter, letter: int, second: tuple[tuple[int, int], ...]) -> Choice:
    """Return a letter in front of which, or after which, comes another one, not below it."""
    number = letter - FIRST
    last = [_anywhere(low, high, 1, 2 * letter + 1) for low, high in second]
    return number, number, writer.number(last, adapted(number, 1, first=True))


def hebrew_labels() -> Graph:
    """Up to three letters, the last one in ascending order a sign that stands after others.

    Code points come in ascending order, whatever their places in the label; both signs are above
    all letters, so they come last.
    """
    writer = GraphWriter()

    @functools.cache
    def following(length: int, place: int, bias: int) -> int:
        """Return the state in which the next letter begins, after ``length`` others."""
        choices = [_anywhere(*_HEBREW, length, place)]
        for sign in (_GERESH, _GERSHAYIM) if length else ():
            low = sign * (length + 1) - place
            choices.append((low + 1, low + length, END))
        if length + 1 < _MAX_HEBREW:
            low, high, _ = choices[0]
            for number in range(low, high + 1):
                letter, index = divmod(place + number, length + 1)
                after = letter * (length + 2) + index + 1
                next_bias = adapted(number, length + 1, first=length == 0)
                choices.append((number, number, following(length + 1, after, next_bias)))
        return writer.number(choices, bias)

    return writer.graph(following(0, FIRST, FIRST_BIAS))


def _anywhere(low: int, high: int, length: int, place: int) -> Choice:
    """Return the numbers that put a code point of a range into a text of ``length`` code points.

    ``place`` is where to count from, as numbers count: code point · (length + 1) + index.
    """
    return max(0, low * (length + 1) - place), (high + 1) * (length + 1) - 1 - place, END
