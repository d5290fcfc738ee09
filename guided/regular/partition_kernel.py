"""The coarsest partition of which some sets of code points are unions, compiled by numba.

Two code points are in one class if the same sets contain them. A sweep goes over the ends of all
ranges, in order; between two ends the same sets contain all code points, and these sets are looked
up by their hash::

    set 0        a b c d              ends       a    c    e    g       (each with its set)
    set 1            c d e f          intervals  a-b  c-d  e-f
                                      in sets    0    0 1  1
                                      class      0    1    2

    members      0 | 0 1 | 1          the sets of each class, from begin[class] on
    active_sets  the sets that contain the code point at the sweep, in any order
    place_of     by set its index in ``active_sets``, -1 if it is not there
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import group_by_key, keys_of
from guided.runtime.kernel import allocating_kernel, inlined

__all__ = ["class_intervals", "ranges_by_group"]


@allocating_kernel
def class_intervals(
    ranges: NDArray[np.int32], sizes: NDArray[np.int32], max_members: int
) -> tuple[NDArray[np.int32], int, NDArray[np.int32], NDArray[np.int32]]:
    """Return the classes of which every set is a union.

    ``ranges`` has the first and the last code point of each range, set by set, and ``sizes`` the
    number of ranges of each set; those of one set must neither overlap nor adjoin, as in
    ``CodePoints``: an end toggles whether the set is active. Returns the intervals that lie in one
    class, ascending: first and last code point and class, int32 ``[3, intervals]``; the number of
    classes; and by set its classes, from ``first[set]`` on. There are -1 classes if ``members``
    would be longer than ``max_members``.
    """
    ends = _sort_ends(ranges, sizes)
    sets, events = len(sizes), len(ends)
    intervals = np.empty((3, max(events, 1)), dtype=np.int32)
    # See the example above.
    active_sets = np.empty(sets, dtype=np.int32)
    place_of = np.full(sets, -1, dtype=np.int32)
    num_members = _count_members(ends, place_of)
    if num_members > max_members:
        return intervals, -1, place_of, place_of
    members = np.empty(num_members, dtype=np.int32)
    begin = np.zeros(events + 1, dtype=np.int32)
    # Classes by the hash of their sets. There are fewer than ends, so some slot is always free.
    capacity = 16
    while capacity < 2 * events:
        capacity *= 2
    slots = np.full(capacity, -1, dtype=np.int32)
    num_intervals, num_classes, size = 0, 0, 0
    key = np.uint64(0)
    for event in range(events):
        number = np.int32(ends[event] & 0xFFFFFFFF)
        place = place_of[number]
        mixed = np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        # Each set starts and ends in turn. The hash of the active sets is the sum of their hashes,
        # so it is updated by adding and subtracting.
        if place == -1:
            place_of[number], active_sets[size] = size, number
            size += 1
            key += mixed
        else:
            size -= 1
            active_sets[place] = active_sets[size]
            place_of[active_sets[place]] = place
            place_of[number] = -1
            key -= mixed
        code_point = ends[event] >> 32
        # After the last end no set is active, so the next end is read only if there is one.
        if size == 0 or ends[event + 1] >> 32 == code_point:
            continue
        slot = _find_slot(key, size, place_of, slots, begin, members)
        index = slots[slot]
        if index == -1:
            index = slots[slot] = num_classes
            for at in range(size):
                members[begin[index] + at] = active_sets[at]
            num_classes += 1
            begin[num_classes] = begin[index] + size
        last = (ends[event + 1] >> 32) - 1
        intervals[0, num_intervals], intervals[1, num_intervals] = code_point, last
        intervals[2, num_intervals] = index
        num_intervals += 1
    begin = begin[: num_classes + 1]
    first, order = group_by_key(sets, members[: begin[num_classes]])
    return intervals[:, :num_intervals], num_classes, first, keys_of(begin)[order]


@inlined
def _find_slot(
    key: np.uint64,
    size: int,
    place_of: NDArray[np.int32],
    slots: NDArray[np.int32],
    begin: NDArray[np.int32],
    members: NDArray[np.int32],
) -> int:
    """Return the slot of the class of the ``size`` active sets: where it is or where to enter it.

    ``key`` is the hash of these sets, which does not depend on their order. The number of slots is
    a power of two, and one of them is free.
    """
    slot = np.int64(key >> np.uint64(20)) & (len(slots) - 1)
    while slots[slot] != -1:
        # If it has as many sets, and all of them are active, it is the same class.
        other = slots[slot]
        at = begin[other]
        if begin[other + 1] - at == size:
            while at < begin[other + 1] and place_of[members[at]] != -1:
                at += 1
            if at == begin[other + 1]:
                break
        slot = (slot + 1) & (len(slots) - 1)
    return int(slot)


@allocating_kernel
def _sort_ends(ranges: NDArray[np.int32], sizes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the ends of all ranges, ascending: code point in the upper 32 bits, set below.

    A range ends at the code point after its last one.
    """
    ends = np.empty(len(ranges), dtype=np.int64)
    at = 0
    for number in range(len(sizes)):
        for _ in range(sizes[number]):
            ends[at] = np.int64(ranges[at]) << 32 | number
            ends[at + 1] = np.int64(ranges[at + 1] + 1) << 32 | number
            at += 2
    return ends[np.argsort(ends, kind="mergesort")]


@allocating_kernel
def _count_members(ends: NDArray[np.int64], place_of: NDArray[np.int32]) -> int:
    """Return the number of active sets, summed over all intervals: the most ``members`` needed.

    ``place_of`` must be all -1, and is so again afterwards.
    """
    size, total = 0, 0
    for event in range(len(ends)):
        number = ends[event] & 0xFFFFFFFF
        size += 1 if place_of[number] == -1 else -1
        place_of[number] = -1 - place_of[number]
        if event + 1 < len(ends) and ends[event + 1] >> 32 != ends[event] >> 32:
            total += size
    place_of[:] = -1
    return total


@allocating_kernel
def ranges_by_group(
    intervals: NDArray[np.int32], group: NDArray[np.int32], groups: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return ``first``, and the code points of groups of classes: int32 ``[2, ranges]``, by group.

    The ranges of a group are from ``first[group]`` on. ``group`` has the group of each class, less
    than ``groups``, and -1 for none. ``intervals`` are as ``class_intervals`` returns them: they
    must ascend, as adjacent ones of a group become one range.
    """
    count = intervals.shape[1]
    first = np.zeros(groups + 1, dtype=np.int32)
    last = np.full(groups, -2, dtype=np.int32)
    for at in range(count):
        number = group[intervals[2, at]]
        if number != -1:
            first[number + 1] += intervals[0, at] != last[number] + 1
            last[number] = intervals[1, at]
    for number in range(groups):
        first[number + 1] += first[number]
    ranges = np.empty((2, first[groups]), dtype=np.int32)
    place = first[:-1].copy()
    last[:] = -2
    for at in range(count):
        number = group[intervals[2, at]]
        if number != -1:
            if intervals[0, at] != last[number] + 1:
                ranges[0, place[number]] = intervals[0, at]
                place[number] += 1
            ranges[1, place[number] - 1] = last[number] = intervals[1, at]
    return first, ranges
