"""The coarsest classes of code points that distinguish some sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.partition_kernel import class_intervals, ranges_by_group
from guided.runtime.fuel import spend, with_pauses

__all__ = ["MAX_OVERLAP", "Partition", "overlap_too_much", "partition", "sets_in_turn"]

MAX_OVERLAP: Final = 16_000_000
"""Pieces of sets, cut wherever some set begins or ends to contain code points; 4 bytes each."""


class Partition:
    """Disjoint classes, and for each set the classes that make it up, ascending.

    ``members`` has their places in ``classes``, for each set in the order given.
    """

    __slots__ = ("classes", "members")

    def __init__(self, classes: tuple[CodePoints, ...], members: list[list[int]]) -> None:
        self.classes: Final = classes
        self.members: Final = members

    def holders(self, first: int, count: int) -> list[int]:
        """Return by class which of ``count`` disjoint sets from ``first`` on has it, -1 for none.

        Sets are counted from ``first``: 0 is the set with that place among those given.
        """
        found = [-1] * len(self.classes)
        for place in range(count):
            for index in self.members[first + place]:
                found[index] = place
        return found


def partition(sets: Sequence[CodePoints]) -> Partition:
    """Return the coarsest classes from which every one of the sets can be put together.

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
    spans = with_pauses(pairwise(begin.tolist()))
    classes = [CodePoints(tuple(ends[low:high])) for low, high in spans]
    listed: list[int] = members.tolist()
    spans = with_pauses(pairwise(first.tolist()))
    return Partition(tuple(classes), [listed[low:high] for low, high in spans])


def sets_in_turn(sets: Sequence[CodePoints]) -> tuple[list[int], list[int]]:
    """Return the ends of all ranges, set by set, and the number of ranges of each set.

    ``class_intervals`` takes them like this: the first and the last code point of each range in
    turn.
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
    """Return the error for sets that overlap past MAX_OVERLAP."""
    return LimitExceededError(
        f"its sets of characters, cut where they overlap, are more than {MAX_OVERLAP} pieces",
        limit=MAX_OVERLAP,
        hint="use fewer different sets of characters",
    )
