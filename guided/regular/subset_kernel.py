"""The smallest deterministic automaton of a non-deterministic one, compiled by numba.

In one kernel, from sets of code points to a table over classes of them: expressions are made of
many small automata, and to pass arrays on takes longer than to work on them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.regular.equal_columns import column_groups
from guided.regular.longer import longer
from guided.regular.minimize import smallest
from guided.regular.moves import columns_of
from guided.regular.partition_kernel import class_intervals, ranges_by_group
from guided.runtime.kernel import inlined, kernel, making_kernel

__all__ = [
    "MADE",
    "TOO_MANY_CELLS",
    "TOO_MANY_MOVES",
    "TOO_MANY_STATES",
    "TOO_MUCH_OVERLAP",
    "TOO_MUCH_WORK",
    "smallest_automaton",
]

MADE: Final = 0
TOO_MANY_STATES: Final = 1
TOO_MUCH_WORK: Final = 2
TOO_MUCH_OVERLAP: Final = 3
TOO_MANY_CELLS: Final = 4
TOO_MANY_MOVES: Final = 5
_SUBSETS, _DONE, _TURN, _WORK, _STAMP, _TOUCHED, _MOVES, _PLAIN = 0, 1, 2, 3, 4, 5, 6, 7
"""What is kept from one call of ``_followed`` to the next."""


@making_kernel
def smallest_automaton(  # type: ignore[no-untyped-def]
    numbers, sizes, bulk, bulk_size, count, final, search, most, limits
):
    """The smallest automaton of an NFA; with ``search`` a match may begin anywhere.

    ``numbers`` has one behind another, and ``sizes`` how many each takes: the ends of the ranges of
    all sets, and how many ranges each set has; sources, targets and sets of moves; sources and
    targets of empty moves, of those at the start, and of those at the end. ``bulk`` has more moves.
    ``limits`` are how many steps, pieces of sets, moves over pieces, and cells there may be.

    Returns what came of it; the steps it took; the table, int32 ``[states, classes]``, and labels,
    with -1 for no move and no label; the ranges of classes, int32 ``[2, ranges]``, and where those
    of each begin; and for each class the set that it is, -1 where it is none.
    """
    most_work, most_pieces, most_moves, most_cells = limits
    cut = np.zeros(len(sizes) + 1, dtype=np.int64)
    for part in range(len(sizes)):
        cut[part + 1] = cut[part] + sizes[part]
    intervals, width, member_first, members = class_intervals(
        numbers[cut[0] : cut[1]], numbers[cut[1] : cut[2]], most_pieces
    )
    none = np.empty(0, dtype=np.int32)
    table = np.empty((0, 0), dtype=np.int32)
    ranges = np.empty((2, 0), dtype=np.int32)
    if width == -1:
        return TOO_MUCH_OVERLAP, 0, table, none, none, ranges, none
    edges = _num_edges(numbers[cut[4] : cut[5]], bulk, bulk_size, member_first)
    if edges > most_moves:
        return TOO_MANY_MOVES, len(members), table, none, none, ranges, none
    subsets, label, moves, work = _subsets_of(
        count,
        final,
        width,
        search,
        most,
        most_work,
        _classes_by_source(
            count,
            numbers[cut[2] : cut[3]],
            numbers[cut[3] : cut[4]],
            numbers[cut[4] : cut[5]],
            bulk,
            bulk_size,
            members,
            member_first,
        ),
        _sorted_by_source(count, numbers[cut[5] : cut[6]], numbers[cut[6] : cut[7]]),
        _sorted_by_source(count, numbers[cut[7] : cut[8]], numbers[cut[8] : cut[9]]),
        _sorted_by_source(count, numbers[cut[9] : cut[10]], numbers[cut[10] : cut[11]]),
    )
    steps = edges + work
    if work > most_work:
        return TOO_MUCH_WORK, steps, table, none, none, ranges, none
    if subsets > most:
        return TOO_MANY_STATES, steps, table, none, none, ranges, none
    moves, label = smallest(moves, label, width, True)
    group, groups = column_groups(moves, width)
    if groups * len(label) > most_cells:
        return TOO_MANY_CELLS, steps, table, none, none, ranges, none
    first, ranges = ranges_by_group(intervals, group, groups)
    origin = _sets_alone(group, groups, member_first, members)
    return MADE, steps, columns_of(moves, group, groups), label, first, ranges, origin


@making_kernel
def _num_edges(sets, bulk, bulk_size, member_first):  # type: ignore[no-untyped-def]
    """Moves, each counted once for every class that it reads."""
    edges = np.int64(0)
    for number in sets:
        edges += member_first[number + 1] - member_first[number]
    for edge in range(bulk_size):
        edges += member_first[bulk[2, edge] + 1] - member_first[bulk[2, edge]]
    return edges


@making_kernel
def _sets_alone(group, groups, member_first, members):  # type: ignore[no-untyped-def]
    """For each group of classes the set that it is, where it is one class; else -1."""
    origin = np.full(groups, -1, dtype=np.int32)
    sizes = np.zeros(groups, dtype=np.int32)
    for number in group:
        if number != -1:
            sizes[number] += 1
    for number in range(len(member_first) - 1):
        at = member_first[number]
        if member_first[number + 1] == at + 1:
            whole = group[members[at]]
            if whole != -1 and sizes[whole] == 1:
                origin[whole] = number
    return origin


@making_kernel
def _sorted_by_source(count, sources, targets):  # type: ignore[no-untyped-def]
    """Targets by source: those of ``s`` from ``first[s]`` on."""
    first = np.zeros(count + 1, dtype=np.int32)
    for source in sources:
        first[source + 1] += 1
    for state in range(count):
        first[state + 1] += first[state]
    place = first.copy()
    by_source = np.empty(len(targets), dtype=np.int32)
    for edge in range(len(sources)):
        at = place[sources[edge]]
        by_source[at] = targets[edge]
        place[sources[edge]] += 1
    return first, by_source


@making_kernel
def _classes_by_source(  # type: ignore[no-untyped-def]
    count, sources, targets, sets, bulk, bulk_size, members, member_first
):
    """Classes and targets of moves by source: those of ``s`` from ``first[s]`` on."""
    first = np.zeros(count + 1, dtype=np.int32)
    size = np.diff(member_first)
    for edge in range(len(sources)):
        first[sources[edge] + 1] += size[sets[edge]]
    # Moves of a state mostly stand side by side, so where it is at is looked up for the first.
    before, at = 0, first[1]
    for edge in range(bulk_size):
        if bulk[0, edge] != before:
            first[before + 1], before = at, bulk[0, edge]
            at = first[before + 1]
        at += size[bulk[2, edge]]
    first[before + 1] = at
    for state in range(count):
        first[state + 1] += first[state]
    place = first[:-1].copy()
    classes = np.empty(first[count], dtype=np.int32)
    to = np.empty(first[count], dtype=np.int32)
    for edge in range(len(sources)):
        source, begin = sources[edge], member_first[sets[edge]]
        for member in range(begin, begin + size[sets[edge]]):
            classes[place[source]], to[place[source]] = members[member], targets[edge]
            place[source] += 1
    before, at = 0, place[0]
    for edge in range(bulk_size):
        if bulk[0, edge] != before:
            place[before], before = at, bulk[0, edge]
            at = place[before]
        begin = member_first[bulk[2, edge]]
        for member in range(begin, begin + size[bulk[2, edge]]):
            classes[at], to[at] = members[member], bulk[1, edge]
            at += 1
    return first, classes, to


@inlined
def _spread(queue, size, mark, stamp, first, targets, state):  # type: ignore[no-untyped-def]
    for edge in range(first[state], first[state + 1]):
        target = targets[edge]
        if mark[target] != stamp:
            mark[target] = stamp
            queue[size] = target
            size += 1
    return size


@inlined
def _hash(members, begin, end):  # type: ignore[no-untyped-def]
    """A hash that does not mind the order."""
    value = np.uint64(0)
    for at in range(begin, end):
        mixed = np.uint64(members[at] + 1) * np.uint64(0x9E3779B97F4A7C15)
        value += mixed ^ (mixed >> np.uint64(29))
    return value * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(20)


@making_kernel
def _subsets_of(  # type: ignore[no-untyped-def]
    count, final, width, search, most, most_work, moves, empties, starts, ends
):
    """The subset construction (Rabin and Scott, 1959): labels and moves, and the steps it took.

    Subsets are more than ``most`` where that was not enough.
    """
    links = len(moves[1])
    mark = np.zeros(count + 1, dtype=np.int32)
    queue = np.empty(count + 1, dtype=np.int32)
    head = np.full(width, -1, dtype=np.int32)
    linked_to = np.empty(links, dtype=np.int32)
    linked_next = np.empty(links, dtype=np.int32)
    # What is read next; a search goes on with every class.
    touched = np.arange(max(width, 1)).astype(np.int32)
    read_in = np.zeros(width, dtype=np.int32)
    plain_class, plain_to = np.empty(width, dtype=np.int32), np.empty(width, dtype=np.int32)
    behind_one = np.full(count, -1, dtype=np.int32)

    room, more = 64, max(4 * width, 256)
    label = np.empty(room, dtype=np.int32)
    begin = np.zeros(room + 1, dtype=np.int32)
    pool = np.empty(max(4 * count, 64), dtype=np.int32)
    slots = np.full(4 * room, -1, dtype=np.int32)
    first = np.zeros(room + 1, dtype=np.int32)
    classes, targets = np.empty(more, dtype=np.int32), np.empty(more, dtype=np.int32)
    at = np.array([0, -1, 0, 0, 0, 1, 0, -1])
    # What a loop puts a longer array into is counted at each use: so it is not the one that works.
    while not _followed(
        count,
        final,
        search,
        most,
        most_work,
        moves,
        empties,
        starts,
        ends,
        mark,
        queue,
        (head, linked_to, linked_next, touched),
        (read_in, plain_class, plain_to),
        behind_one,
        label,
        (begin, pool, slots),
        (first, classes, targets),
        at,
    ):
        if begin[at[_SUBSETS]] + count >= len(pool):
            pool = longer(pool, 2 * len(pool) + count)
        if at[_SUBSETS] == room:
            room *= 2
            label, first = longer(label, room), longer(first, room + 1)
            begin = longer(begin, room + 1)
            slots = np.full(4 * room, -1, dtype=np.int32)
            _enter(slots, pool, begin, at[_SUBSETS])
        if at[_MOVES] + width > more:
            more = 2 * more + width
            classes, targets = longer(classes, more), longer(targets, more)
    subsets = at[_SUBSETS]
    kept = min(subsets, most)
    made = classes[: at[_MOVES]], targets[: at[_MOVES]]
    return subsets, label[:kept], (first[: kept + 1], *made), at[_WORK]


@making_kernel
def _enter(slots, pool, begin, subsets):  # type: ignore[no-untyped-def]
    """Enter the subsets into the table that they are looked up in; the first one stays out."""
    mask = np.uint64(len(slots) - 1)
    for subset in range(1, subsets):
        slot = _hash(pool, begin[subset], begin[subset + 1]) & mask
        while slots[slot] != -1:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = subset


@inlined
def _plain_moves(states, moves, read_in, stamp, plain_class, plain_to):  # type: ignore[no-untyped-def]
    """Write down the moves of some states, and return how many; -1 where two read one class."""
    first, classes, targets = moves
    size = 0
    for state in states:
        for edge in range(first[state], first[state + 1]):
            index = classes[edge]
            if read_in[index] == stamp:
                return -1
            read_in[index] = stamp
            plain_class[size], plain_to[size] = index, targets[edge]
            size += 1
    return size


@inlined
def _chained(states, count, moves, search, chains):  # type: ignore[no-untyped-def]
    """Chain moves of some states by the class that each reads; how many, and of how many classes.

    In a search those are all classes.
    """
    first, classes, targets = moves
    head, linked_to, linked_next, touched = chains
    links = 0
    size = len(head) if search else 0
    for state in states:
        if state == count:
            break
        for edge in range(first[state], first[state + 1]):
            index = classes[edge]
            linked_to[links], linked_next[links] = targets[edge], head[index]
            if head[index] == -1 and not search:
                touched[size] = index
                size += 1
            head[index] = links
            links += 1
    return links, size


@inlined
def _slot_of(queue, size, mark, stamp, known):  # type: ignore[no-untyped-def]
    """Where the subset in the queue is in the table that subsets are looked up in, or belongs."""
    begin, pool, slots = known
    mask = np.uint64(len(slots) - 1)
    slot = _hash(queue, 0, size) & mask
    while slots[slot] != -1:
        other = slots[slot]
        if begin[other + 1] - begin[other] == size:
            # Of as many states, all of them marked just now, are the same.
            place = begin[other]
            while place < begin[other + 1] and mark[pool[place]] == stamp:
                place += 1
            if place == begin[other + 1]:
                break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@inlined
def _label_at_end(  # type: ignore[no-untyped-def]
    queue, size, mark, stamp, final, empties, ends, starts, is_at_start
):
    """Whether the text may end here: 0, else -1; and the states looked at.

    What may be taken only at the end is taken now.
    """
    empty_first, empty_to = empties
    end_first, end_to = ends
    start_first, start_to = starts
    for place in range(size):
        mark[queue[place]] = stamp
    place = 0
    while place < size:
        state = queue[place]
        if state == final:
            return 0, size
        size = _spread(queue, size, mark, stamp, empty_first, empty_to, state)
        size = _spread(queue, size, mark, stamp, end_first, end_to, state)
        if is_at_start:
            size = _spread(queue, size, mark, stamp, start_first, start_to, state)
        place += 1
    return -1, size


@kernel
def _followed(  # type: ignore[no-untyped-def]
    count,
    final,
    search,
    most,
    most_work,
    moves,
    empties,
    starts,
    ends,
    mark,
    queue,
    chains,
    plains,
    behind_one,
    label,
    known,
    made,
    at,
):
    """Work subsets out from where the last call stopped; False where there is no room for more.

    ``known`` are the states of each subset, and the table that subsets are looked up in by them;
    what is ``made`` are their moves.

    A subset keeps the states that something follows from. ``count`` alone stands for a match that
    lies behind, when that is all that was asked for. ``behind_one`` has by state the subset that a
    move to it alone leads to, which most moves do; -1 for not known.
    """
    move_first = moves[0]
    empty_first, empty_to = empties
    start_first, start_to = starts
    end_first, end_to = ends
    head, linked_to, linked_next, touched = chains
    read_in, plain_class, plain_to = plains
    begin, pool, slots = known
    first, classes, targets = made
    width = len(head)
    subsets, done, first_turn = at[_SUBSETS], at[_DONE], at[_TURN]
    work, stamp, size_touched, top, plain = (
        at[_WORK],
        at[_STAMP],
        at[_TOUCHED],
        at[_MOVES],
        at[_PLAIN],
    )
    while done < subsets:
        # Round -1 makes the first subset; every other one the subsets behind one that is known.
        if done >= 0 and first_turn == 0:
            if top + width > len(classes):
                at[_SUBSETS], at[_DONE], at[_TURN], at[_MOVES] = subsets, done, 0, top
                at[_WORK], at[_STAMP], at[_TOUCHED] = work, stamp, size_touched
                return False
            first[done] = top
            links = 0
            plain = -1
            if not search:
                stamp += 1
                states = pool[begin[done] : begin[done + 1]]
                plain = _plain_moves(states, moves, read_in, stamp, plain_class, plain_to)
            if plain == -1:
                for place in range(size_touched):
                    head[touched[place]] = -1
                states = pool[begin[done] : begin[done + 1]]
                links, size_touched = _chained(states, count, moves, search, chains)
            work += links + size_touched if plain == -1 else plain
            if work > most_work:
                at[_WORK] = work
                return True
        turns = size_touched if plain == -1 else plain
        matched_before = done >= 0 and begin[done] < begin[done + 1] and pool[begin[done]] == count
        for turn in range(first_turn, 1 if done == -1 else turns):
            lone = -1
            if plain != -1:
                index, lone = plain_class[turn], plain_to[turn]
            else:
                index = touched[turn]
                if matched_before:
                    classes[top], targets[top] = index, done
                    top += 1
                    continue
                if done >= 0 and not search and linked_next[head[index]] == -1:
                    lone = linked_to[head[index]]
            if lone != -1 and behind_one[lone] != -1:
                classes[top], targets[top] = index, behind_one[lone]
                top += 1
                continue
            stamp += 1
            size = 0
            if done == -1 or search:
                mark[0] = stamp
                queue[0] = 0
                size = 1
            if lone != -1:
                mark[lone] = stamp
                queue[0] = lone
                size = 1
            elif done >= 0:
                link = head[index]
                while link != -1:
                    target = linked_to[link]
                    if mark[target] != stamp:
                        mark[target] = stamp
                        queue[size] = target
                        size += 1
                    link = linked_next[link]
            place = 0
            while place < size:
                size = _spread(queue, size, mark, stamp, empty_first, empty_to, queue[place])
                if done == -1:
                    size = _spread(queue, size, mark, stamp, start_first, start_to, queue[place])
                place += 1
            work += size
            if work > most_work:
                at[_SUBSETS], at[_WORK] = subsets, work
                return True
            is_final = mark[final] == stamp
            if search and is_final:
                # It alone is marked: any of the others may be a subset by itself.
                stamp += 1
                queue[0] = count
                mark[count] = stamp
                kept = 1
            else:
                kept = 0
                for place in range(size):
                    state = queue[place]
                    if (
                        state == final
                        or move_first[state] < move_first[state + 1]
                        or end_first[state] < end_first[state + 1]
                    ):
                        queue[kept] = state
                        kept += 1
                if kept == 0 and done >= 0:
                    continue

            # Find the subset, or add it. The first one stays out: it alone is at the start.
            found, slot = -1, np.int64(-1)
            if done >= 0:
                slot = _slot_of(queue, kept, mark, stamp, known)
                found = slots[slot]
            if found == -1:
                if subsets == most:
                    at[_SUBSETS], at[_WORK] = subsets + 1, work
                    return True
                if subsets == len(label) or begin[subsets] + kept > len(pool):
                    at[_SUBSETS], at[_DONE], at[_TURN], at[_MOVES] = subsets, done, turn, top
                    at[_WORK], at[_STAMP], at[_TOUCHED], at[_PLAIN] = (
                        work,
                        stamp,
                        size_touched,
                        plain,
                    )
                    return False
                found = subsets
                subsets += 1
                for place in range(kept):
                    pool[begin[found] + place] = queue[place]
                begin[found + 1] = begin[found] + kept
                if done >= 0:
                    slots[slot] = found

                label[found] = 0 if is_final else -1
                if not is_final and len(end_to):
                    stamp += 1
                    label[found], size = _label_at_end(
                        queue, kept, mark, stamp, final, empties, ends, starts, done == -1
                    )
                    work += size
            if done >= 0:
                classes[top], targets[top] = index, found
                top += 1
            if lone != -1:
                behind_one[lone] = found
        done += 1
        first_turn, plain = 0, -1
    first[subsets] = top
    at[_SUBSETS], at[_WORK], at[_MOVES] = subsets, work, top
    return True
