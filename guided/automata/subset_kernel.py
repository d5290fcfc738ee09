"""The subset construction, compiled by numba."""

from __future__ import annotations

import numpy as np

from guided.automata.kernel import inlined, kernel, making_kernel

__all__ = ["subset_table"]

_SUBSETS, _DONE, _INDEX, _WORK, _STAMP = 0, 1, 2, 3, 4
"""What is kept from one call of ``_followed`` to the next."""


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
    count, sources, targets, sets, member_classes, member_first
):
    """Classes and targets of moves by source: those of ``s`` from ``first[s]`` on."""
    first = np.zeros(count + 1, dtype=np.int32)
    size = np.diff(member_first)
    # Moves of a state mostly stand side by side, so where it is at is looked up for the first.
    before, at = 0, 0
    for edge in range(len(sources)):
        if sources[edge] != before:
            first[before + 1], before = at, sources[edge]
            at = first[before + 1]
        at += size[sets[edge]]
    first[before + 1] = at
    for state in range(count):
        first[state + 1] += first[state]
    place = first[:-1].copy()
    classes = np.empty(first[count], dtype=np.int32)
    to = np.empty(first[count], dtype=np.int32)
    before, at = 0, 0
    for edge in range(len(sources)):
        if sources[edge] != before:
            place[before], before = at, sources[edge]
            at = place[before]
        begin = member_first[sets[edge]]
        for member in range(begin, begin + size[sets[edge]]):
            classes[at], to[at] = member_classes[member], targets[edge]
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


@making_kernel
def _longer(array, room):  # type: ignore[no-untyped-def]
    longer = np.empty((room, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@inlined
def _hash(members, begin, end):  # type: ignore[no-untyped-def]
    """A hash that does not mind the order."""
    value = np.uint64(0)
    for at in range(begin, end):
        mixed = np.uint64(members[at] + 1) * np.uint64(0x9E3779B97F4A7C15)
        value += mixed ^ (mixed >> np.uint64(29))
    return value * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(20)


@making_kernel
def subset_table(  # type: ignore[no-untyped-def]
    count,
    final,
    width,
    search,
    most,
    most_work,
    member_classes,
    member_first,
    move_sources,
    move_targets,
    move_sets,
    empty_sources,
    empty_targets,
    start_sources,
    start_targets,
    end_sources,
    end_targets,
):
    moves = _classes_by_source(
        count, move_sources, move_targets, move_sets, member_classes, member_first
    )
    empty_first, empty_to = _sorted_by_source(count, empty_sources, empty_targets)
    start_first, start_to = _sorted_by_source(count, start_sources, start_targets)
    end_first, end_to = _sorted_by_source(count, end_sources, end_targets)
    links = len(moves[1])
    mark = np.zeros(count + 1, dtype=np.int32)
    queue = np.empty(count + 1, dtype=np.int32)
    linked_to = np.empty(links, dtype=np.int32)
    linked_next = np.empty(links, dtype=np.int32)
    head = np.empty(width, dtype=np.int32)
    behind_one = np.full(count, -1, dtype=np.int32)

    room = 64
    table = np.empty((room, width), dtype=np.int32)
    label = np.empty(room, dtype=np.int32)
    begin = np.zeros(room + 1, dtype=np.int64)
    pool = np.empty(max(4 * count, 64), dtype=np.int32)
    slots = np.full(4 * room, -1, dtype=np.int32)
    at = np.array([0, -1, 0, 0, 0])
    # What a loop puts a longer array into is counted at each use: so it is not the one that works.
    while not _followed(
        count,
        final,
        search,
        most,
        most_work,
        moves,
        (empty_first, empty_to),
        (start_first, start_to),
        (end_first, end_to),
        mark,
        queue,
        (head, linked_to, linked_next),
        behind_one,
        table,
        label,
        begin,
        pool,
        slots,
        at,
    ):
        room *= 2
        table, label, begin = _longer(table, room), _longer(label, room), _longer(begin, room + 1)
        pool = _longer(pool, 2 * len(pool) + count)
        slots = np.full(4 * room, -1, dtype=np.int32)
        _enter(slots, pool, begin, at[_SUBSETS])
    return at[_SUBSETS], table, label, at[_WORK]


@making_kernel
def _enter(slots, pool, begin, subsets):  # type: ignore[no-untyped-def]
    """Enter the subsets into the table that they are looked up in; the first one stays out."""
    mask = np.uint64(len(slots) - 1)
    for subset in range(1, subsets):
        slot = _hash(pool, begin[subset], begin[subset + 1]) & mask
        while slots[slot] != -1:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = subset


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
    behind_one,
    table,
    label,
    begin,
    pool,
    slots,
    at,
):
    """Work subsets out from where the last call stopped; False where there is no room for more.

    A subset keeps the states that something follows from. ``count`` alone stands for a match that
    lies behind, when that is all that was asked for. ``behind_one`` has by state the subset that a
    move to it alone leads to, which most moves do; -1 for not known.
    """
    move_first, move_class, move_to = moves
    empty_first, empty_to = empties
    start_first, start_to = starts
    end_first, end_to = ends
    head, linked_to, linked_next = chains
    width = len(head)
    subsets, done, first_index = at[_SUBSETS], at[_DONE], at[_INDEX]
    work, stamp = at[_WORK], at[_STAMP]
    mask = np.uint64(len(slots) - 1)
    while done < subsets:
        # Round -1 makes the first subset; every other one the subsets behind one that is known.
        if done >= 0 and first_index == 0:
            head[:] = -1
            links = 0
            for place in range(begin[done], begin[done + 1]):
                state = pool[place]
                if state == count:
                    break
                for edge in range(move_first[state], move_first[state + 1]):
                    linked_to[links] = move_to[edge]
                    linked_next[links] = head[move_class[edge]]
                    head[move_class[edge]] = links
                    links += 1
            work += links
        matched_before = done >= 0 and begin[done] < begin[done + 1] and pool[begin[done]] == count
        for index in range(first_index, 1 if done == -1 else width):
            if matched_before:
                table[done, index] = done
                continue
            lone = -1
            if done >= 0 and not search:
                if head[index] == -1:
                    table[done, index] = -1
                    continue
                if linked_next[head[index]] == -1:
                    lone = linked_to[head[index]]
                    if behind_one[lone] != -1:
                        table[done, index] = behind_one[lone]
                        continue
            stamp += 1
            size = 0
            if done == -1 or search:
                mark[0] = stamp
                queue[0] = 0
                size = 1
            if done >= 0:
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
            if search and mark[final] == stamp:
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
                    table[done, index] = -1
                    continue

            # Find the subset, or add it. The first one stays out: it alone is at the start.
            slot = _hash(queue, 0, kept) & mask
            found = -1
            while done >= 0 and slots[slot] != -1:
                other = slots[slot]
                if begin[other + 1] - begin[other] == kept:
                    # Of as many states, all of them marked just now, are the same.
                    same = True
                    for place in range(begin[other], begin[other + 1]):
                        if mark[pool[place]] != stamp:
                            same = False
                            break
                    if same:
                        found = other
                        break
                slot = (slot + np.uint64(1)) & mask
            if found == -1:
                if subsets == most:
                    at[_SUBSETS], at[_WORK] = subsets + 1, work
                    return True
                if subsets == len(label) or begin[subsets] + kept > len(pool):
                    at[_SUBSETS], at[_DONE], at[_INDEX] = subsets, done, index
                    at[_WORK], at[_STAMP] = work, stamp
                    return False
                found = subsets
                subsets += 1
                for place in range(kept):
                    pool[begin[found] + place] = queue[place]
                begin[found + 1] = begin[found] + kept
                if done >= 0:
                    slots[slot] = found

                # Does the text end here? What may be taken only at the end is taken now.
                stamp += 1
                size = 0
                label[found] = -1
                for place in range(kept):
                    if queue[place] == count:
                        label[found] = 0
                        break
                    mark[queue[place]] = stamp
                    size += 1
                place = 0
                while place < size and label[found] == -1:
                    state = queue[place]
                    if state == final:
                        label[found] = 0
                    size = _spread(queue, size, mark, stamp, empty_first, empty_to, state)
                    size = _spread(queue, size, mark, stamp, end_first, end_to, state)
                    if done == -1:
                        size = _spread(queue, size, mark, stamp, start_first, start_to, state)
                    place += 1
                work += size
            if done >= 0:
                table[done, index] = found
            if lone != -1:
                behind_one[lone] = found
        done += 1
        first_index = 0
    at[_SUBSETS], at[_WORK] = subsets, work
    return True
