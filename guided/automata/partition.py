"""The coarsest classes of code points that tell some sets apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.automata.codepoints import MAX_CODE_POINT, CodePoints
from guided.automata.fuel import spend

__all__ = ["Partition", "partition"]


class Partition:
    """Disjoint classes, and for each of them the sets that hold it, as bits by number."""

    __slots__ = ("classes", "holders")

    def __init__(self, classes: tuple[CodePoints, ...], holders: tuple[int, ...]) -> None:
        self.classes: Final = classes
        self.holders: Final = holders

    def members(self, count: int) -> list[list[int]]:
        """For each of the first ``count`` sets the classes that it is put together of."""
        found: list[list[int]] = [[] for _ in range(count)]
        for index, bits in enumerate(self.holders):
            left = bits & ((1 << count) - 1)
            while left:
                lowest = left & -left
                found[lowest.bit_length() - 1].append(index)
                left ^= lowest
        return found


def partition(sets: Sequence[CodePoints]) -> Partition:
    """The coarsest classes out of which every one of the sets can be put together.

    Code points in none of the sets are in no class. A sweep over the ends of all ranges.
    """
    changes: dict[int, int] = {}
    for number, chars in enumerate(sets):
        bit = 1 << number
        spend(len(chars.ranges) // 2)
        for low, high in chars.ranges:
            changes[low] = changes.get(low, 0) ^ bit
            changes[high + 1] = changes.get(high + 1, 0) ^ bit
    grouped: dict[int, list[tuple[int, int]]] = {}
    start, inside = 0, 0
    for edge in sorted(changes):
        change = changes[edge]
        if not change:
            continue
        if inside:
            grouped.setdefault(inside, []).append((start, edge - 1))
        start = edge
        inside ^= change
    assert not inside and start <= MAX_CODE_POINT + 1, "every range ends"
    return Partition(
        tuple(CodePoints(tuple(ranges)) for ranges in grouped.values()), tuple(grouped)
    )
