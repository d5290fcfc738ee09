"""A-labels (RFC 5890, section 2.3.2.1) that have few code points outside of ASCII.

What a label's Punycode stands for is not regular: every number in it goes on from the exact code
point and place of the one before. Here are the labels with one such code point, and short ones
without ASCII in scripts whose letters lie side by side. All these letters are valid (RFC 5892), in
any order, and none joins the one before it (NFC). Each graph is what follows "xn--".
"""

from __future__ import annotations

import functools
from typing import Final

from guided.json_schema.reader.punycode import (
    END,
    FIRST,
    FIRST_BIAS,
    Choice,
    GraphWriter,
    adapted,
)
from guided.regular.codepoints import CodePoints
from guided.regular.expression import Graph

__all__ = ["hebrew_labels", "mixed_labels", "short_labels"]

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
    """One code point among ASCII letters and digits with hyphens between them."""
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
    """A dot in the first "ll" of a label (RFC 5892, appendix A.3), without hyphens."""
    other = _LETTER_OR_DIGIT & ~_L
    here, behind_l = start, None
    doubled: list[tuple[int, int]] = []  # with the place between
    for length in range(1, _MAX_AROUND_DOT + 1):
        following = [(writer.state(), place) for _, place in doubled]
        for (source, _), (target, _) in zip(doubled, following, strict=True):
            writer.move(source, _LETTER_OR_DIGIT, target)
        states = writer.state(), writer.state()
        writer.move(here, other, states[0])
        writer.move(here, _L, states[1])
        if behind_l is not None:
            writer.move(behind_l, other, states[0])
            following.append((writer.state(), length - 1))
            writer.move(behind_l, _L, following[-1][0])
        (here, behind_l), doubled = states, following
        for state, place in doubled:
            number = (_MIDDLE_DOT - FIRST) * (length + 1) + place
            writer.move(state, _HYPHEN, writer.number([(number, number, END)], FIRST_BIAS))


def short_labels() -> Graph:
    """One code point, or two of Japanese of which one at least is no ideograph."""
    writer = GraphWriter()
    singles = *_SINGLE, _HIRAGANA, _KATAKANA, _IDEOGRAPHS
    choices = [_anywhere(low, high, 0, FIRST) for low, high in singles]
    for letter in range(_HIRAGANA[0], _HIRAGANA[1] + 1):
        second = (letter, _HIRAGANA[1]), (_KATAKANA[0], _LONG_VOWEL), _IDEOGRAPHS
        choices.append(_before(writer, letter, second))
    for letter in range(_KATAKANA[0], _KATAKANA[1] + 1):
        choices.append(_before(writer, letter, ((letter, _LONG_VOWEL), _IDEOGRAPHS)))
    # The dot wants a neighbour of these scripts (RFC 5892, appendix A.7).
    choices.append(_before(writer, _KATAKANA_DOT, (_IDEOGRAPHS,)))
    return writer.graph(writer.number(choices, FIRST_BIAS))


def _before(writer: GraphWriter, letter: int, second: tuple[tuple[int, int], ...]) -> Choice:
    """A letter in front of which, or behind which, comes another one, not below it."""
    number = letter - FIRST
    last = [_anywhere(low, high, 1, 2 * letter + 1) for low, high in second]
    return number, number, writer.number(last, adapted(number, 1, first=True))


def hebrew_labels() -> Graph:
    """Up to three letters, the last one in ascending order a sign that stands behind others."""
    writer = GraphWriter()

    @functools.cache
    def following(length: int, place: int, bias: int) -> int:
        """The state in which the next letter begins, when so many are there."""
        choices = [_anywhere(*_HEBREW, length, place)]
        for sign in (_GERESH, _GERSHAYIM) if length else ():
            low = sign * (length + 1) - place
            choices.append((low + 1, low + length, END))
        if length + 1 < _MAX_HEBREW:
            low, high, _ = choices[0]
            for number in range(low, high + 1):
                letter, index = divmod(place + number, length + 1)
                behind = letter * (length + 2) + index + 1
                next_bias = adapted(number, length + 1, first=length == 0)
                choices.append((number, number, following(length + 1, behind, next_bias)))
        return writer.number(choices, bias)

    return writer.graph(following(0, FIRST, FIRST_BIAS))


def _anywhere(low: int, high: int, length: int, place: int) -> Choice:
    """The numbers that put a code point of a range into a text of so many code points.

    ``place`` is where to count from, as numbers count: code point · (length + 1) + index.
    """
    return max(0, low * (length + 1) - place), (high + 1) * (length + 1) - 1 - place, END
