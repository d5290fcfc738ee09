"""The subset construction, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["subset_table"]


@njit(cache=True, nogil=True)
def _sorted_by_source(count, sources, targets):  # type: ignore[no-untyped-def]
    """Targets by source: those of ``s`` from ``first[s]`` on, and the edges that they come from."""
    first = np.zeros(count + 1, dtype=np.int32)
    for source in sources:
        first[source + 1] += 1
    for state in range(count):
        first[state + 1] += first[state]
    place = first.copy()
    by_source = np.empty(len(targets), dtype=np.int32)
    edge_of = np.empty(len(targets), dtype=np.int32)
    for edge in range(len(sources)):
        at = place[sources[edge]]
        by_source[at] = targets[edge]
        edge_of[at] = edge
        place[sources[edge]] += 1
    return first, by_source, edge_of


@njit(cache=True, nogil=True)
def _spread(queue, size, mark, stamp, first, targets, state):  # type: ignore[no-untyped-def]
    for edge in range(first[state], first[state + 1]):
        target = targets[edge]
        if mark[target] != stamp:
            mark[target] = stamp
            queue[size] = target
            size += 1
    return size


@njit(cache=True, nogil=True)
def _longer(array, room):  # type: ignore[no-untyped-def]
    longer = np.empty((room, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@njit(cache=True, nogil=True)
def _hash(members):  # type: ignore[no-untyped-def]
    """A hash that does not mind the order."""
    value = np.uint64(0)
    for member in members:
        mixed = np.uint64(member + 1) * np.uint64(0x9E3779B97F4A7C15)
        value += mixed ^ (mixed >> np.uint64(29))
    return value * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(20)


@njit(cache=True, nogil=True)
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
    move_first, move_to, move_edge = _sorted_by_source(count, move_sources, move_targets)
    empty_first, empty_to, _ = _sorted_by_source(count, empty_sources, empty_targets)
    start_first, start_to, _ = _sorted_by_source(count, start_sources, start_targets)
    end_first, end_to, _ = _sorted_by_source(count, end_sources, end_targets)

    # A subset keeps the states that something follows from. ``count`` alone stands for a match
    # that lies behind, when that is all that was asked for.
    mark = np.zeros(count + 1, dtype=np.int32)
    stamp = 0
    queue = np.empty(count + 1, dtype=np.int32)
    links = 0
    for edge in range(len(move_sets)):
        number = move_sets[edge]
        links += member_first[number + 1] - member_first[number]
    linked_to = np.empty(links, dtype=np.int32)
    linked_next = np.empty(links, dtype=np.int32)
    head = np.empty(width, dtype=np.int32)
    # By state the subset that a move to it alone leads to, which most moves do; -1 for not known.
    behind_one = np.full(count, -1, dtype=np.int32)

    room = 64
    table = np.empty((room, width), dtype=np.int32)
    label = np.empty(room, dtype=np.int32)
    begin = np.empty(room + 1, dtype=np.int64)
    pool = np.empty(max(4 * count, 64), dtype=np.int32)
    slots = np.full(4 * room, -1, dtype=np.int32)

    begin[0] = begin[1] = 0
    subsets, done, work = 0, -1, 0
    while done < subsets:
        # Round -1 makes the first subset; every other one the subsets behind one that is known.
        if done >= 0:
            head[:] = -1
            links = 0
            for at in range(begin[done], begin[done + 1]):
                state = pool[at]
                if state == count:
                    break
                for edge in range(move_first[state], move_first[state + 1]):
                    number = move_sets[move_edge[edge]]
                    for member in range(member_first[number], member_first[number + 1]):
                        index = member_classes[member]
                        linked_to[links] = move_to[edge]
                        linked_next[links] = head[index]
                        head[index] = links
                        links += 1
            work += links
        matched_before = done >= 0 and begin[done] < begin[done + 1] and pool[begin[done]] == count
        for index in range(1 if done == -1 else width):
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
            at = 0
            while at < size:
                size = _spread(queue, size, mark, stamp, empty_first, empty_to, queue[at])
                if done == -1:
                    size = _spread(queue, size, mark, stamp, start_first, start_to, queue[at])
                at += 1
            work += size
            if work > most_work:
                return subsets, table, label, work
            if search and mark[final] == stamp:
                queue[0] = count
                mark[count] = stamp
                kept = 1
            else:
                kept = 0
                for at in range(size):
                    state = queue[at]
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
            mask = np.uint64(len(slots) - 1)
            slot = _hash(queue[:kept]) & mask
            found = -1
            while done >= 0 and slots[slot] != -1:
                other = slots[slot]
                if begin[other + 1] - begin[other] == kept:
                    # Of as many states, all of them marked just now, are the same.
                    same = True
                    for at in range(begin[other], begin[other + 1]):
                        if mark[pool[at]] != stamp:
                            same = False
                            break
                    if same:
                        found = other
                        break
                slot = (slot + np.uint64(1)) & mask
            if found == -1:
                found = subsets
                subsets += 1
                if subsets > most:
                    return subsets, table, label, work
                if subsets > room:
                    room *= 2
                    table, label = _longer(table, room), _longer(label, room)
                    begin = _longer(begin, room + 1)
                while begin[found] + kept > len(pool):
                    pool = _longer(pool, 2 * len(pool))
                pool[begin[found] : begin[found] + kept] = queue[:kept]
                begin[found + 1] = begin[found] + kept
                if done >= 0:
                    slots[slot] = found
                if 4 * subsets > len(slots):
                    slots = np.full(4 * len(slots), -1, dtype=np.int32)
                    mask = np.uint64(len(slots) - 1)
                    for other in range(1, subsets):
                        slot = _hash(pool[begin[other] : begin[other + 1]]) & mask
                        while slots[slot] != -1:
                            slot = (slot + np.uint64(1)) & mask
                        slots[slot] = other

                # Does the text end here? What may be taken only at the end is taken now.
                stamp += 1
                size = 0
                label[found] = -1
                for at in range(kept):
                    if queue[at] == count:
                        label[found] = 0
                        break
                    mark[queue[at]] = stamp
                    size += 1
                at = 0
                while at < size and label[found] == -1:
                    state = queue[at]
                    if state == final:
                        label[found] = 0
                    size = _spread(queue, size, mark, stamp, empty_first, empty_to, state)
                    size = _spread(queue, size, mark, stamp, end_first, end_to, state)
                    if done == -1:
                        size = _spread(queue, size, mark, stamp, start_first, start_to, state)
                    at += 1
                work += size
            if done >= 0:
                table[done, index] = found
            if lone != -1:
                behind_one[lone] = found
        done += 1
    return subsets, table, label, work
