"""From an NFA to its minimal deterministic automaton in one kernel, compiled by numba.

Expressions are made of many small automata, and passing arrays from one kernel to the next through
Python takes longer than working on them. So all steps are called from here::

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

from guided.regular import subset_kernel
from guided.regular.equal_columns import column_groups
from guided.regular.minimize import smallest
from guided.regular.partition_kernel import class_intervals, ranges_by_group
from guided.regular.subset_kernel import FOLLOWED, Links, NfaArrays, subsets_of
from guided.regular.transitions import Moves, table_of
from guided.runtime.kernel import making_kernel

__all__ = [
    "MADE",
    "TOO_MANY_CELLS",
    "TOO_MANY_MOVES",
    "TOO_MANY_STATES",
    "TOO_MUCH_OVERLAP",
    "TOO_MUCH_WORK",
    "minimal_automaton",
]

# Outcomes, numbered after those of the subset construction.
MADE: Final = FOLLOWED
TOO_MANY_STATES: Final = subset_kernel.TOO_MANY_STATES
TOO_MUCH_WORK: Final = subset_kernel.TOO_MUCH_WORK
TOO_MUCH_OVERLAP: Final = 3
TOO_MANY_CELLS: Final = 4
TOO_MANY_MOVES: Final = 5


@making_kernel
def minimal_automaton(
    numbers: NDArray[np.int32],
    sizes: tuple[int, ...],
    bulk: NDArray[np.int32],
    bulk_size: int,
    count: int,
    final: int,
    collapses: bool,
    most: int,
    limits: tuple[int, int, int, int],
) -> tuple[
    int,
    int,
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
]:
    """Return the minimal automaton of an NFA of ``count`` states from 0 to ``final``.

    ``collapses`` and ``most`` are as ``subsets_of`` takes them. ``numbers`` has eleven lists one
    after another, and ``sizes`` the length of each: the ends of the ranges of all sets, and how
    many ranges each set has; sources, targets and sets of moves; sources and targets of empty
    moves, of those at the start, and of those at the end. ``bulk`` is a list of more moves, of
    which the first ``bulk_size`` count. ``limits`` are the greatest numbers of steps, pieces of
    sets, moves over pieces, and cells.

    Returns the outcome; the steps it took; the table, int32 ``[states, columns]``, and the labels,
    0 or -1; the ranges of the columns as ``ranges_by_group`` has them, int32 ``[columns + 1]`` and
    ``[2, ranges]``; and for each column the set that it equals, -1 if there is none.
    """
    most_work, most_pieces, most_moves, most_cells = limits
    # ``numbers`` is cut into its lists here: one array makes a call cheaper than eleven do.
    cut = np.zeros(len(sizes) + 1, dtype=np.int64)
    for part in range(len(sizes)):
        cut[part + 1] = cut[part] + sizes[part]
    intervals, width, class_first, classes = class_intervals(
        numbers[cut[0] : cut[1]], numbers[cut[1] : cut[2]], most_pieces
    )
    none = np.empty(0, dtype=np.int32)
    table = np.empty((0, 0), dtype=np.int32)
    ranges = np.empty((2, 0), dtype=np.int32)
    if width == -1:
        return TOO_MUCH_OVERLAP, 0, table, none, none, ranges, none
    over_sets = np.empty((3, cut[3] - cut[2] + bulk_size), dtype=np.int32)
    for row in range(3):
        few = cut[row + 3] - cut[row + 2]
        over_sets[row, :few] = numbers[cut[row + 2] : cut[row + 3]]
        over_sets[row, few:] = bulk[row, :bulk_size]
    size = _num_moves(over_sets[2], class_first)
    if size > most_moves:
        return TOO_MANY_MOVES, len(classes), table, none, none, ranges, none
    nfa = NfaArrays(
        count,
        final,
        _moves_over_classes(count, over_sets, class_first, classes),
        _links(count, numbers[cut[5] : cut[6]], numbers[cut[6] : cut[7]]),
        _links(count, numbers[cut[7] : cut[8]], numbers[cut[8] : cut[9]]),
        _links(count, numbers[cut[9] : cut[10]], numbers[cut[10] : cut[11]]),
    )
    outcome, label, moves, work = subsets_of(nfa, width, collapses, most, most_work)
    steps = size + work
    if outcome != FOLLOWED:
        return outcome, steps, table, none, none, ranges, none
    moves, label = smallest(moves, label, width, True)
    group, groups = column_groups(moves, width)
    if groups * len(label) > most_cells:
        return TOO_MANY_CELLS, steps, table, none, none, ranges, none
    first, ranges = ranges_by_group(intervals, group, groups)
    origin = _sets_alone(group, groups, class_first, classes)
    return MADE, steps, table_of(moves, group, groups), label, first, ranges, origin


@making_kernel
def _num_moves(sets: NDArray[np.int32], class_first: NDArray[np.int32]) -> int:
    """Return the number of moves if each is counted once for every class that it reads.

    In int64: there may be more than int32 holds, which the caller then refuses.
    """
    size = 0
    for number in sets:
        size += int(class_first[number + 1]) - int(class_first[number])
    return size


@making_kernel
def _moves_over_classes(
    count: int,
    over_sets: NDArray[np.int32],
    class_first: NDArray[np.int32],
    classes: NDArray[np.int32],
) -> Moves:
    """Moves by state, one for each class, from a list of moves that read sets (a counting sort).

    ``over_sets``, int32 ``[3, moves]``, has sources, targets and numbers of sets. The classes of
    set ``s`` are ``classes`` from ``class_first[s]`` up to ``class_first[s + 1]``. Places are
    int32: ``_num_moves`` has already shown that there are not too many.
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


@making_kernel
def _links(count: int, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> Links:
    """Moves without a symbol by source (a counting sort), for an NFA of ``count`` states.

    Move ``i`` leads from ``sources[i]`` to ``targets[i]``.
    """
    first = np.zeros(count + 1, dtype=np.int32)
    for source in sources:
        first[source + 1] += 1
    for state in range(count):
        first[state + 1] += first[state]
    place = first.copy()
    by_source = np.empty(len(targets), dtype=np.int32)
    for edge in range(len(sources)):
        by_source[place[sources[edge]]] = targets[edge]
        place[sources[edge]] += 1
    return Links(first, by_source)


@making_kernel
def _sets_alone(
    group: NDArray[np.int32],
    groups: int,
    class_first: NDArray[np.int32],
    classes: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Return for each group of classes the set that it equals, if both are one class; else -1.

    ``class_first`` and ``classes`` are those of ``_moves_over_classes``. Then the set itself can
    stand for the group, and its ranges need not be made again. Groups of several classes have -1
    even if they equal some set: finding it would take longer.
    """
    origin = np.full(groups, -1, dtype=np.int32)
    sizes = np.zeros(groups, dtype=np.int32)
    for number in group:
        if number != -1:
            sizes[number] += 1
    for number in range(len(class_first) - 1):
        at = class_first[number]
        if class_first[number + 1] == at + 1:
            whole = group[classes[at]]
            if whole != -1 and sizes[whole] == 1:
                origin[whole] = number
    return origin
