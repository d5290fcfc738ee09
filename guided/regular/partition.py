"""The coarsest partition of code points of which some sets are unions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.partition_kernel import class_intervals, ranges_by_group
from guided.runtime.work_budget import spend, with_pauses

__all__ = [
    "MAX_OVERLAP",
    "Partition",
    "code_point_sets",
    "flatten_ranges",
    "partition",
    "too_much_overlap_error",
]

MAX_OVERLAP: Final = 16_000_000
"""Most pieces of all sets, if each is cut where another one begins or ends; 4 bytes each."""


class Partition:
    """Disjoint classes of code points, and for each set the classes of which it is the union.

    ``members`` has their indices in ``classes``, ascending, for each set in the order given.
    """

    __slots__ = ("classes", "members")

    def __init__(self, classes: tuple[CodePoints, ...], members: list[list[int]]) -> None:
        self.classes: Final = classes
        self.members: Final = members

    def sets_by_class(self, first: int, count: int) -> list[int]:
        """Return for each class the one of ``count`` disjoint sets that contains it, -1 for none.

        The sets are those from index ``first`` on, and are counted from there.
        """
        set_of = [-1] * len(self.classes)
        for number in range(count):
            for index in self.members[first + number]:
                set_of[index] = number
        return set_of


def partition(sets: Sequence[CodePoints]) -> Partition:
    """Return the coarsest partition of which every one of the sets is a union.

    Code points in none of the sets are in no class. Raises LimitExceededError past MAX_OVERLAP.
    """
    ranges, sizes = flatten_ranges(sets)
    intervals, count, first, members = class_intervals(
        np.array(ranges, dtype=np.int32), np.array(sizes, dtype=np.int32), MAX_OVERLAP
    )
    if count == -1:
        raise too_much_overlap_error()
    begin, bounds = ranges_by_group(intervals, np.arange(count, dtype=np.int32), count)
    listed: list[int] = members.tolist()
    spans = with_pauses(pairwise(first.tolist()))
    return Partition(code_point_sets(begin, bounds), [listed[low:high] for low, high in spans])


def code_point_sets(first: NDArray[np.int32], ranges: NDArray[np.int32]) -> tuple[CodePoints, ...]:
    """Return sets of code points from their ranges, as ``ranges_by_group`` returns them."""
    ends = [*zip(*ranges.tolist(), strict=True)]
    spans = with_pauses(pairwise(first.tolist()))
    return tuple([CodePoints(tuple(ends[low:high])) for low, high in spans])


def flatten_ranges(sets: Sequence[CodePoints]) -> tuple[list[int], list[int]]:
    """Return all ranges as ``class_intervals`` takes them, and the number of ranges of each set.

    Ranges are listed set by set, as their first and last code points in turn.
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


def too_much_overlap_error() -> LimitExceededError:
    """Return the error for sets that overlap past MAX_OVERLAP."""
    return LimitExceededError(
        f"its sets of characters, cut where they overlap, are more than {MAX_OVERLAP} pieces",
        limit=MAX_OVERLAP,
        hint="use fewer different sets of characters",
    )
