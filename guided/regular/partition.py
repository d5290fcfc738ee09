"""The coarsest classes of code points that tell some sets apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.partition_kernel import class_intervals, ranges_by_group
from guided.runtime.fuel import breathing, spend

__all__ = ["MAX_OVERLAP", "Partition", "overlap_too_much", "partition", "sets_in_turn"]

MAX_OVERLAP: Final = 16_000_000
"""Pieces of sets, cut wherever some set begins or ends to hold code points; 4 bytes each."""


class Partition:
    """Disjoint classes, and for each set those that it is put together of, ascending.

    ``members`` has the places of these in ``classes``, by set in the order that they were given in.
    """

    __slots__ = ("classes", "members")

    def __init__(self, classes: tuple[CodePoints, ...], members: list[list[int]]) -> None:
        self.classes: Final = classes
        self.members: Final = members

    def holders(self, first: int, count: int) -> list[int]:
        """For each class which of ``count`` disjoint sets from ``first`` on has it; -1 for none.

        Counted from ``first``: 0 for the set with that place among those that were given.
        """
        found = [-1] * len(self.classes)
        for place in range(count):
            for index in self.members[first + place]:
                found[index] = place
        return found


def partition(sets: Sequence[CodePoints]) -> Partition:
    """The coarsest classes out of which every one of the sets can be put together.

    Code points in none of the sets are in no class. Raises LimitExceededError past MAX_OVERLAP.
    """
    ranges, sizes = sets_in_turn(sets)
    intervals, count, first, members = class_intervals(
        np.array(ranges, dtype=np.int32), np.array(sizes, dtype=np.int32), MAX_OVERLAP
    )
    if count == -1:
        raise overlap_too_much()
    begin, bounds = ranges_by_group(intervals, np.arange(count, dtype=np.int32), count)
    ends = [*zip(*bounds.tolist(), strict=True)]
    spans = breathing(pairwise(begin.tolist()))
    classes = [CodePoints(tuple(ends[low:high])) for low, high in spans]
    listed: list[int] = members.tolist()
    spans = breathing(pairwise(first.tolist()))
    return Partition(tuple(classes), [listed[low:high] for low, high in spans])


def sets_in_turn(sets: Sequence[CodePoints]) -> tuple[list[int], list[int]]:
    """The ends of all ranges, set by set, and how many ranges each set has.

    So ``class_intervals`` takes them: the first and the last code point of each range in turn.
    """
    ends: list[int] = []
    sizes: list[int] = []
    for chars in sets:
        sizes.append(len(chars.ranges))
        for low, high in chars.ranges:
            ends.append(low)
            ends.append(high)
    spend(len(ends) // 4)
    return ends, sizes


def overlap_too_much() -> LimitExceededError:
    """The error of sets that overlap past MAX_OVERLAP."""
    return LimitExceededError(
        f"its sets of characters, cut where they overlap, are more than {MAX_OVERLAP} pieces",
        limit=MAX_OVERLAP,
        hint="use fewer different sets of characters",
    )
