"""Ranges of code points as short text.

Numbers in base 36 with a dot between: how many code points lie between a range and the one before,
then how many are in it less one, which is left out where it is none::

    (0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA)   ->   1t:p.6:p.1b
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["read_ranges", "written_ranges"]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def read_ranges(text: str) -> list[tuple[int, int]]:
    """The ranges, both ends inclusive, in ascending order."""
    ranges: list[tuple[int, int]] = []
    next_ = 0
    for part in text.split("."):
        gap, _, more = part.partition(":")
        first = next_ + int(gap, 36)
        last = first + (int(more, 36) if more else 0)
        ranges.append((first, last))
        next_ = last + 1
    return ranges


def written_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """The text of ranges in ascending order, at least one."""
    parts = []
    next_ = 0
    for first, last in ranges:
        more = f":{_base_36(last - first)}" if last > first else ""
        parts.append(_base_36(first - next_) + more)
        next_ = last + 1
    return ".".join(parts)


def _base_36(number: int) -> str:
    digits = _DIGITS[number % 36]
    while number := number // 36:
        digits = _DIGITS[number % 36] + digits
    return digits
