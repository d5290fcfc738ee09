"""Sets of Unicode code points as sorted ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

__all__ = ["ANY", "EMPTY", "MAX_CODE_POINT", "CodePoints", "is_surrogate", "lone_surrogate"]

MAX_CODE_POINT: Final = 0x10FFFF
_FIRST_SURROGATE: Final = 0xD800
_LAST_SURROGATE: Final = 0xDFFF


class CodePoints:
    """A set of Unicode scalar values, held as disjoint inclusive ranges in ascending order.

    Surrogates are never members: UTF-8 cannot spell them (RFC 3629, section 3). No range begins
    right after another one, so equal sets have equal ranges. The constructor needs such ranges;
    ``from_ranges`` takes any.
    """

    __slots__ = ("_hash", "ranges")
    __match_args__: Final = ("ranges",)

    def __init__(self, ranges: tuple[tuple[int, int], ...]) -> None:
        self.ranges: Final = ranges
        # Large sets are keys of many tables. 0 until the hash is first needed.
        self._hash = 0

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]]) -> CodePoints:
        """Return the union of inclusive ranges given in any order; surrogates are dropped."""
        merged: list[tuple[int, int]] = []
        # The range that may still grow; none at first, and -2 keeps one that begins at 0 separate.
        first, last = 0, -2
        for low, high in sorted(ranges):
            if low <= last + 1:
                last = max(last, high)
                merged[-1] = (first, last)
            else:
                first, last = low, high
                merged.append((low, high))
        if last >= _FIRST_SURROGATE:
            return CodePoints(tuple(merged)) & ANY
        return CodePoints(tuple(merged))

    @classmethod
    def single(cls, character: str) -> CodePoints:
        return CodePoints.from_ranges([(ord(character), ord(character))])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, CodePoints) and self.ranges == other.ranges

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash(self.ranges)
        return self._hash

    def __repr__(self) -> str:
        return f"CodePoints({self.ranges!r})"

    def __or__(self, other: CodePoints) -> CodePoints:
        return CodePoints.from_ranges((*self.ranges, *other.ranges))

    def __and__(self, other: CodePoints) -> CodePoints:
        """Return the code points of both sets."""
        # Both are ascending, so one pass over the two lists finds all that overlaps. The result
        # needs no ``from_ranges``: if one common range began right after another, so would two
        # ranges of one of the sets.
        common: list[tuple[int, int]] = []
        at = 0
        for low, high in self.ranges:
            while at < len(other.ranges) and other.ranges[at][1] < low:
                at += 1
            # The last range that reaches in here may also reach into the next one.
            here = at
            while here < len(other.ranges) and other.ranges[here][0] <= high:
                first, last = other.ranges[here]
                common.append((max(low, first), min(high, last)))
                here += 1
        return CodePoints(tuple(common))

    def __invert__(self) -> CodePoints:
        """Return all other code points; surrogates are in no set, and so not in this one either."""
        gaps: list[tuple[int, int]] = []
        start = 0
        for low, high in self.ranges:
            if start < low:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= MAX_CODE_POINT:
            gaps.append((start, MAX_CODE_POINT))
        # Surrogates lie in a gap of every set, and are dropped again.
        return CodePoints.from_ranges(gaps)

    def __contains__(self, code_point: int) -> bool:
        index = bisect_right(self.ranges, (code_point, MAX_CODE_POINT)) - 1
        return index >= 0 and code_point <= self.ranges[index][1]

    def __bool__(self) -> bool:
        return bool(self.ranges)


def is_surrogate(code_point: int) -> bool:
    """Whether this is half of a pair that UTF-16 writes for one character, and no character."""
    return _FIRST_SURROGATE <= code_point <= _LAST_SURROGATE


def lone_surrogate(ranges: Iterable[tuple[int, int]]) -> int | None:
    """Return the first code point of an inclusive range of nothing but surrogates, if there is one.

    A class that lists such a range asks for characters that no text has.
    """
    return next((low for low, high in ranges if is_surrogate(low) and is_surrogate(high)), None)


EMPTY: Final = CodePoints(())
ANY: Final = CodePoints(
    ((0, _FIRST_SURROGATE - 1), (_LAST_SURROGATE + 1, MAX_CODE_POINT)),
)
