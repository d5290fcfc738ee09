"""From an NFA to its minimal deterministic automaton in one kernel, compiled by numba.

Expressions need many small automata, and passing arrays from one kernel to the next through Python
takes longer than working on them. So all steps are called from here::

    sets of code points     -> classes, of which every set is a union    partition_kernel
    moves over sets         -> moves over classes, by state              here
    NFA                     -> subsets, labels and their moves           subset_kernel
    subsets                 -> states                                    minimize
    classes of equal moves  -> columns                                   equal_columns
    moves                   -> table                                     transitions
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.equal_columns import group_classes
from guided.regular.minimize import minimize_moves
from guided.regular.partition_kernel import class_intervals, ranges_by_group
from guided.regular.subset_kernel import COMPLETE, EdgesBySource, NfaArrays, build_subsets
from guided.regular.transitions import Moves, group_by_key, table_from_moves
from guided.runtime.kernel import allocating_kernel

__all__ = [
    "TOO_MANY_CELLS",
    "TOO_MANY_MOVES",
    "TOO_MUCH_OVERLAP",
    "minimal_automaton",
]

TOO_MUCH_OVERLAP: Final = 3
TOO_MANY_CELLS: Final = 4
TOO_MANY_MOVES: Final = 5
"""Outcomes beside those of ``subset_kernel``."""


@allocating_kernel
def minimal_automaton(
    numbers: NDArray[np.int32],
    sizes: tuple[int, ...],
    bulk: NDArray[np.int32],
    bulk_size: int,
    count: int,
    final: int,
    search: bool,
    max_states: int,
    limits: tuple[int, int, int, int],
) -> tuple[
    int,
    int,
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
]:
    """Return the minimal automaton of an NFA of ``count`` states from 0 to ``final``.

    ``search`` and ``max_states`` are as ``build_subsets`` takes them. ``numbers`` has eleven lists
    one after another, and ``sizes`` the length of each: the ends of the ranges of all sets, and how
    many ranges each set has; sources, targets and sets of moves; sources and targets of epsilons,
    of those at the start, and of those at the end. ``bulk`` is a list of more moves, of
    which the first ``bulk_size`` count. ``limits`` are the greatest work of ``build_subsets``, and
    the greatest numbers of members of classes (``class_intervals``), moves over classes, and cells.

    Returns the outcome; the steps it took; the table, int32 ``[states, columns]``, and the labels,
    0 or -1; and the ranges of the columns as ``ranges_by_group`` has them, int32 ``[columns + 1]``
    and ``[2, ranges]``. All arrays are empty unless the outcome is COMPLETE.
    """
    max_work, max_members, max_moves, max_cells = limits
    # Where each list begins in ``numbers``: passing one array takes less time than eleven.
    start = np.zeros(len(sizes) + 1, dtype=np.int64)
    for part in range(len(sizes)):
        start[part + 1] = start[part] + sizes[part]
    intervals, width, class_first, classes = class_intervals(
        numbers[start[0] : start[1]], numbers[start[1] : start[2]], max_members
    )
    empty = np.empty(0, dtype=np.int32)
    table = np.empty((0, 0), dtype=np.int32)
    ranges = np.empty((2, 0), dtype=np.int32)
    if width == -1:
        return TOO_MUCH_OVERLAP, 0, table, empty, empty, ranges
    over_sets = np.empty((3, start[3] - start[2] + bulk_size), dtype=np.int32)
    for row in range(3):
        num_listed = start[row + 3] - start[row + 2]
        over_sets[row, :num_listed] = numbers[start[row + 2] : start[row + 3]]
        over_sets[row, num_listed:] = bulk[row, :bulk_size]
    size = _count_moves(over_sets[2], class_first)
    if size > max_moves:
        return TOO_MANY_MOVES, len(classes), table, empty, empty, ranges
    nfa = NfaArrays(
        count,
        final,
        _moves_over_classes(count, over_sets, class_first, classes),
        _edges_by_source(count, numbers[start[5] : start[6]], numbers[start[6] : start[7]]),
        _edges_by_source(count, numbers[start[7] : start[8]], numbers[start[8] : start[9]]),
        _edges_by_source(count, numbers[start[9] : start[10]], numbers[start[10] : start[11]]),
    )
    outcome, label, moves, work = build_subsets(nfa, width, search, max_states, max_work)
    steps = size + work
    if outcome != COMPLETE:
        return outcome, steps, table, empty, empty, ranges
    moves, label = minimize_moves(moves, label, width, True)
    group, groups = group_classes(moves, width)
    if groups * len(label) > max_cells:
        return TOO_MANY_CELLS, steps, table, empty, empty, ranges
    first, ranges = ranges_by_group(intervals, group, groups)
    return COMPLETE, steps, table_from_moves(moves, group, groups), label, first, ranges


@allocating_kernel
def _count_moves(sets: NDArray[np.int32], class_first: NDArray[np.int32]) -> int:
    """Return the number of moves if each is counted once for every class that it reads; int64."""
    size = 0
    for number in sets:
        size += int(class_first[number + 1]) - int(class_first[number])
    return size


@allocating_kernel
def _moves_over_classes(
    count: int,
    over_sets: NDArray[np.int32],
    class_first: NDArray[np.int32],
    classes: NDArray[np.int32],
) -> Moves:
    """Return moves by state, one for each class, from a list of moves that read sets.

    ``over_sets``, int32 ``[3, moves]``, has sources, targets and numbers of sets. The classes of
    set ``s`` are ``classes`` from ``class_first[s]`` up to ``class_first[s + 1]``. A counting sort;
    indices are int32, as the caller has checked ``_count_moves``.
    """
    first = np.zeros(count + 1, dtype=np.int32)
    for edge in range(over_sets.shape[1]):
        number = over_sets[2, edge]
        first[over_sets[0, edge] + 1] += class_first[number + 1] - class_first[number]
    for state in range(count):
        first[state + 1] += first[state]
    place = first[:-1].copy()
    read = np.empty(first[count], dtype=np.int32)
    targets = np.empty(first[count], dtype=np.int32)
    for edge in range(over_sets.shape[1]):
        source, target, number = over_sets[0, edge], over_sets[1, edge], over_sets[2, edge]
        at = place[source]
        for member in range(class_first[number], class_first[number + 1]):
            read[at], targets[at] = classes[member], target
            at += 1
        place[source] = at
    return Moves(first, read, targets)


@allocating_kernel
def _edges_by_source(
    count: int, sources: NDArray[np.int32], targets: NDArray[np.int32]
) -> EdgesBySource:
    """Return edges from ``sources[i]`` to ``targets[i]`` by source, for ``count`` states."""
    first, order = group_by_key(count, sources)
    return EdgesBySource(first, targets[order])
