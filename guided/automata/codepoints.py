"""Sets of Unicode code points as sorted ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["ANY", "EMPTY", "MAX_CODE_POINT", "CodePoints"]

MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True, slots=True)
class CodePoints:
    """A set of Unicode scalar values, held as disjoint inclusive ranges in ascending order.

    Surrogates are never members: UTF-8 cannot spell them (RFC 3629, section 3).
    """

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CodePoints:
        """The union of inclusive ranges given in any order; surrogates are dropped."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted(_without_surrogates(ranges)):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def single(cls, character: str) -> CodePoints:
        return cls.of([(ord(character), ord(character))])

    def __or__(self, other: CodePoints) -> CodePoints:
        return CodePoints.of((*self.ranges, *other.ranges))

    def __and__(self, other: CodePoints) -> CodePoints:
        return ~(~self | ~other)

    def __invert__(self) -> CodePoints:
        gaps: list[tuple[int, int]] = []
        start = 0
        for low, high in self.ranges:
            if start < low:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= MAX_CODE_POINT:
            gaps.append((start, MAX_CODE_POINT))
        return CodePoints.of(gaps)

    def __contains__(self, code_point: int) -> bool:
        index = bisect_right(self.ranges, (code_point, MAX_CODE_POINT)) - 1
        return index >= 0 and code_point <= self.ranges[index][1]

    def __bool__(self) -> bool:
        return bool(self.ranges)


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first, last = _SURROGATES
    for low, high in ranges:
        if low < first:
            yield low, min(high, first - 1)
        if high > last:
            yield max(low, last + 1), high
        # What lies between is surrogates alone.


EMPTY = CodePoints(())
ANY = CodePoints.of([(0, MAX_CODE_POINT)])
