"""Graphs of Punycode (RFC 3492), for the A-labels (RFC 5890, section 2.3.2.1) that are allowed.

Punycode encodes code points in ascending order. Each becomes one number, a *delta*: how far it is
from the last one, counting every position in every text between them. Deltas are written with the
lowest digit first, and the number of digits depends on a *bias*, which follows from the delta
before.

What the Punycode of a label stands for is not regular: every delta in it depends on the exact code
point and position of the one before. So these are the labels with one code point outside ASCII, and
short ones without ASCII in scripts whose letters lie side by side. All these letters are valid (RFC
5892), in any order, and none joins the one before it (NFC). Each graph is what follows "xn--". Only
``hebrew_labels`` are right-to-left: labels that begin with a digit may stand beside all others (RFC
5893).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from guided.regular.codepoints import CodePoints
from guided.regular.expression import Graph

__all__ = [
    "END",
    "INITIAL_BIAS",
    "INITIAL_N",
    "GraphBuilder",
    "adapt_bias",
    "hebrew_labels",
    "mixed_labels",
    "short_labels",
]

INITIAL_N: Final = 128
"""The code point from which the first delta counts."""
INITIAL_BIAS: Final = 72
END: Final = 0
"""The final state of a ``GraphBuilder``."""
# RFC 3492, section 5.
_BASE: Final = 36
_TMIN: Final = 1
_TMAX: Final = 26
_SKEW: Final = 38
_DAMP: Final = 700
DeltaRange: TypeAlias = tuple[int, int, int]
"""Deltas from the first to the second, both included, lead to the state that is the third."""


def adapt_bias(delta: int, length: int, *, first: bool = False) -> int:
    """Return the bias after a delta, when the text has ``length`` code points (section 6.1).

    ``length`` includes the new code point; ``first`` is for the first delta of a label.
    """
    delta //= _DAMP if first else 2
    delta += delta // length
    bias = 0
    while delta > (_BASE - _TMIN) * _TMAX // 2:
        delta //= _BASE - _TMIN
        bias += _BASE
    return bias + (_BASE - _TMIN + 1) * delta // (delta + _SKEW)


class GraphBuilder:
    """Builds a graph of states and moves; states of deltas are shared if their future is the same.

    Moves can be added to any state except END. A builder makes only one graph.
    """

    def __init__(self) -> None:
        self._count = 1  # END is there from the start
        self._moves: list[tuple[int, CodePoints, int]] = []
        """Source, characters and target of each move."""
        self._state_by_ranges: dict[tuple[tuple[DeltaRange, ...], int], int] = {}
        """The state that reads the next digit of a delta, by all that further digits depend on."""

    def add_state(self) -> int:
        """Add a state without moves, and return it."""
        self._count += 1
        return self._count - 1

    def add_move(self, source: int, chars: CodePoints, target: int) -> None:
        """Add a move from one state to another; there may be several for a character."""
        if chars:
            self._moves.append((source, chars, target))

    def add_delta(self, ranges: Sequence[DeltaRange], bias: int) -> int:
        """Add the states of a delta in one of ``ranges``, which may overlap; returns the first."""
        return self._digit_state(tuple(ranges), _BASE - bias)

    def build(self, start: int) -> Graph:
        """Return the graph of all texts from a state to END."""
        return Graph.from_moves(self._count, self._moves, start, END)

    def _digit_state(self, ranges: tuple[DeltaRange, ...], raised: int) -> int:
        """Return the state that reads the next digit of a delta.

        The threshold of the digit is ``raised`` limited to ``_TMIN`` and ``_TMAX``. There is one
        state for equal ranges and thresholds, on which alone further digits depend. The upper ends
        of ranges fall with each digit, so the recursion ends.
        """
        # delta = digit + (base - threshold) * rest; digits below the threshold are the last ones.
        raised = min(raised, _TMAX)
        found = self._state_by_ranges.get((ranges, raised))
        if found is not None:
            return found
        state = self._state_by_ranges[ranges, raised] = self.add_state()
        threshold = max(raised, _TMIN)
        for low, high, target in ranges:
            if low < threshold:
                self.add_move(state, _digit_characters(low, min(high, threshold - 1)), target)
        ranges_after = _ranges_after_digit(ranges, threshold)
        digits = sorted(ranges_after)
        for digit, after in zip(digits, [*digits[1:], _BASE], strict=True):
            if ranges_after[digit]:
                target = self._digit_state(tuple(ranges_after[digit]), raised + _BASE)
                self.add_move(state, _digit_characters(digit, after - 1), target)
        return state


def _ranges_after_digit(
    ranges: Sequence[DeltaRange], threshold: int
) -> dict[int, list[DeltaRange]]:
    """Return the ranges of the rest of a delta after a digit that is not the last one.

    Such a digit is at least ``threshold``, and the delta is ``digit + weight * rest``. The ranges
    after a key hold for all digits up to the next key; an empty list means that no delta has these
    digits. Ranges keep their order, so that equal ones are equal keys in ``_digit_state``.
    """
    weight = _BASE - threshold
    # The digits at which the least and the greatest rest change, and where a range that is shorter
    # than ``weight`` begins and ends: it has only some of the digits, which may wrap around.
    first = [threshold + (low - threshold) % weight for low, _, _ in ranges]
    beyond = [threshold + (high + 1 - threshold) % weight for _, high, _ in ranges]
    by_digit: dict[int, list[DeltaRange]] = {digit: [] for digit in (threshold, *first, *beyond)}
    for (low, high, target), start, stop in zip(ranges, first, beyond, strict=True):
        digits: Iterable[int] = list(by_digit)
        if high - low + 1 < weight:
            digits = (
                range(start, stop)
                if start < stop
                else (*range(threshold, stop), *range(start, _BASE))
            )
        for digit in digits:
            if digit in by_digit and high >= digit:
                # ceil((low - digit) / weight), but no number below zero
                least = max(0, -((digit - low) // weight))
                by_digit[digit].append((least, (high - digit) // weight, target))
    return by_digit


@functools.cache
def _digit_characters(low: int, high: int) -> CodePoints:
    """Return the characters of the digits ``low`` to ``high``, both included.

    Letters are the digits up to 25, and digits those up to 35; there are no capital letters.
    """
    ranges = []
    if low < 26:
        ranges.append((0x61 + low, 0x61 + min(high, 25)))
    if high > 25:
        ranges.append((0x30 + max(low, 26) - 26, 0x30 + high - 26))
    return CodePoints.from_ranges(ranges)


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
_LETTER_OR_DIGIT = CodePoints.from_ranges([(0x30, 0x39), (0x61, 0x7A)])


def mixed_labels() -> Graph:
    """Return labels of one code point among ASCII letters and digits, with hyphens between them.

    They are spelled as all that is ASCII, a hyphen, and the delta of the code point. Hyphens are
    single. ``host_names._MAX_BESIDE_A_LABEL`` depends on the greatest length, and so on
    ``_MAX_ASCII``.
    """
    builder = GraphBuilder()
    start = here = hyphen = builder.add_state()
    for length in range(1, _MAX_ASCII + 1):
        before, here = here, builder.add_state()
        for source in {before, hyphen}:
            builder.add_move(source, _LETTER_OR_DIGIT, here)
        hyphen = builder.add_state()
        if before != start:
            builder.add_move(before, _HYPHEN, hyphen)
        letters = [_deltas_of(low, high, length, INITIAL_N * (length + 1)) for low, high in _SINGLE]
        builder.add_move(here, _HYPHEN, builder.add_delta(letters, INITIAL_BIAS))
    _add_middle_dots(builder, start)
    return builder.build(start)


def _add_middle_dots(builder: GraphBuilder, start: int) -> None:
    """Add labels of ASCII with a middle dot in the first "ll" (RFC 5892, appendix A.3).

    They have no hyphens, and up to ``_MAX_AROUND_DOT`` characters besides the dot. ``start`` is the
    state in which labels begin.
    """
    other = _LETTER_OR_DIGIT & ~_L
    # After texts without "ll" that do not end in "l", and that do; after those with one: the state,
    # and the position in the first "ll".
    here, after_l = start, None
    doubled: list[tuple[int, int]] = []
    for length in range(1, _MAX_AROUND_DOT + 1):
        following = [(builder.add_state(), position) for _, position in doubled]
        for (source, _), (target, _) in zip(doubled, following, strict=True):
            builder.add_move(source, _LETTER_OR_DIGIT, target)
        states = builder.add_state(), builder.add_state()
        builder.add_move(here, other, states[0])
        builder.add_move(here, _L, states[1])
        if after_l is not None:
            builder.add_move(after_l, other, states[0])
            following.append((builder.add_state(), length - 1))
            builder.add_move(after_l, _L, following[-1][0])
        (here, after_l), doubled = states, following
        for state, position in doubled:
            delta = (_MIDDLE_DOT - INITIAL_N) * (length + 1) + position
            builder.add_move(state, _HYPHEN, builder.add_delta([(delta, delta, END)], INITIAL_BIAS))


def short_labels() -> Graph:
    """Return labels of one code point, or of two Japanese ones, not both of them ideographs.

    Code points are encoded in ascending order, and the second delta determines which of them comes
    first in the label.
    """
    builder = GraphBuilder()
    singles = *_SINGLE, _HIRAGANA, _KATAKANA, _IDEOGRAPHS
    choices = [_deltas_of(low, high, 0, INITIAL_N) for low, high in singles]
    for letter in range(_HIRAGANA[0], _HIRAGANA[1] + 1):
        second = (letter, _HIRAGANA[1]), (_KATAKANA[0], _LONG_VOWEL), _IDEOGRAPHS
        choices.append(_two_letters(builder, letter, second))
    for letter in range(_KATAKANA[0], _KATAKANA[1] + 1):
        choices.append(_two_letters(builder, letter, ((letter, _LONG_VOWEL), _IDEOGRAPHS)))
    # The dot needs a neighbour of these scripts (RFC 5892, appendix A.7).
    choices.append(_two_letters(builder, _KATAKANA_DOT, (_IDEOGRAPHS,)))
    return builder.build(builder.add_delta(choices, INITIAL_BIAS))


def _two_letters(
    builder: GraphBuilder, letter: int, second: tuple[tuple[int, int], ...]
) -> DeltaRange:
    """Return the delta of ``letter``, with the state that reads the delta of another letter.

    ``second`` are the ranges of the other one, none of which is below ``letter``.
    """
    delta = letter - INITIAL_N
    last = [_deltas_of(low, high, 1, 2 * letter + 1) for low, high in second]
    return delta, delta, builder.add_delta(last, adapt_bias(delta, 1, first=True))


def hebrew_labels() -> Graph:
    """Return labels of up to three Hebrew letters, one of which may be a sign, but not the first.

    Code points are encoded in ascending order, and both signs are above all letters: so a sign is
    encoded last, wherever it stands.
    """
    builder = GraphBuilder()

    @functools.cache
    def following(length: int, origin: int, bias: int) -> int:
        """Return the first state of the delta of the next letter, after ``length`` others.

        ``origin`` is as for ``_deltas_of``.
        """
        choices = [_deltas_of(*_HEBREW, length, origin)]
        for sign in (_GERESH, _GERSHAYIM) if length else ():
            low = sign * (length + 1) - origin
            choices.append((low + 1, low + length, END))
        if length + 1 < _MAX_HEBREW:
            low, high, _ = choices[0]
            for delta in range(low, high + 1):
                letter, index = divmod(origin + delta, length + 1)
                after = letter * (length + 2) + index + 1
                next_bias = adapt_bias(delta, length + 1, first=length == 0)
                choices.append((delta, delta, following(length + 1, after, next_bias)))
        return builder.add_delta(choices, bias)

    return builder.build(following(0, INITIAL_N, INITIAL_BIAS))


def _deltas_of(low: int, high: int, length: int, origin: int) -> DeltaRange:
    """Return the deltas that insert one of the code points ``low`` to ``high`` into a text.

    The text has ``length`` code points. ``origin`` is the value from which deltas count: code point
    · (length + 1) + index. The result leads to END.
    """
    return max(0, low * (length + 1) - origin), (high + 1) * (length + 1) - 1 - origin, END
