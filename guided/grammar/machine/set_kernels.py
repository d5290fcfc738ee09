"""Sets of states of a network and where bytes lead from them, worked out by numba."""

from __future__ import annotations

from typing import Final

import numpy as np

from guided.machine.table_kernels import NOWHERE, TO_EITHER, TO_SET, TO_STATE
from guided.regular.dfa import DEAD
from guided.regular.equal_columns import SEVERAL, joint_columns
from guided.runtime.kernel import making_kernel

__all__ = ["enter_sets", "find_set", "follow_sets"]

_FEW_KINDS: Final = 8
"""Kinds of ends that a set is compared with."""


@making_kernel
def _hash(items, begin, end):  # type: ignore[no-untyped-def]
    value = np.uint64(end - begin)
    for at in range(begin, end):
        mixed = np.uint64(items[at, 0]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(items[at, 1])
        value = (value ^ mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return value >> np.uint64(20)


@making_kernel
def _find(slots, items, first, begin, end):  # type: ignore[no-untyped-def]
    """The slot of a set, whose items stand from ``begin`` to ``end``, or where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = _hash(items, begin, end) & mask
    while slots[slot] != -1:
        other = first[slots[slot]]
        if first[slots[slot] + 1] - other == end - begin:
            same = True
            for at in range(end - begin):
                for part in range(2):
                    same &= items[other + at, part] == items[begin + at, part]
            if same:
                break
        slot = (slot + np.uint64(1)) & mask
    return slot


@making_kernel
def find_set(slots, items, first, begin, end):  # type: ignore[no-untyped-def]
    """The set with the items that stand from ``begin`` to ``end``, -1 for none."""
    return slots[_find(slots, items, first, begin, end)]


@making_kernel
def enter_sets(slots, items, first, rows, count):  # type: ignore[no-untyped-def]
    """Enter the sets that have rows to lead to into the table that they are looked up in."""
    slots[:] = -1
    for number in range(count):
        if rows[number] != DEAD:
            slots[_find(slots, items, first, first[number], first[number + 1])] = number


@making_kernel
def _comes_behind(item, state, slot):  # type: ignore[no-untyped-def]
    return item[0] > state or (item[0] == state and item[1] > slot)


@making_kernel
def _reached(column, items, begin, end, to):  # type: ignore[no-untyped-def]
    """Write the items behind a byte, sorted, each once, from ``to`` on; where they end."""
    top = to
    for at in range(begin, end):
        state, slot = column[at - begin], items[at, 1]
        if state == DEAD:
            continue
        place = top
        while place > to and _comes_behind(items[place - 1], state, slot):
            place -= 1
        if place > to and items[place - 1, 0] == state and items[place - 1, 1] == slot:
            continue
        for other in range(top, place, -1):
            items[other, 0], items[other, 1] = items[other - 1, 0], items[other - 1, 1]
        items[place, 0], items[place, 1] = state, slot
        top += 1
    return top


@making_kernel
def follow_sets(  # type: ignore[no-untyped-def]
    moves,
    byte_column,
    accepting,
    calling,
    rule_of,
    behind,
    items,
    first,
    slots,
    count,
    is_lone,
    byte_classes,
    edges,
):
    """Find where bytes lead from a set, and from all sets inside of the same rules on the way.

    Set ``n`` has the items from ``first[n]`` on; the last of the ``count`` ones is where it begins.
    With ``is_lone`` no byte leads to it. Sets that are found stand behind it: to be rows as they
    are, as long as there is room for their ``byte_classes``, if no calls begin in them and each
    state came with one slot.

    Writes of those that are to be rows the class of each byte, uint8 ``[sets, 256]``, and by set
    and class ``edges``, int32 ``[edges, 4]``: the set, how bytes lead on and where: TO_STATE a
    state and a pair of rule and slot, TO_SET a set, TO_EITHER a byte. Returns the number of sets,
    -1 where there is no room for more; by set from the first on whether it is to be a row; by row
    one in whose set the rules of the same slots end, int32 ``[rows]``, -1 where none does; the
    number of edges; the pairs, int32 ``[pairs, 2]``; and sets and bytes of what is TO_EITHER, int32
    ``[sides, 2]``.
    """
    begun = count - 1
    size = first[count] - first[begun]
    width = moves.shape[1]
    widest = 1
    for at in range(first[begun], first[count]):
        widest = max(widest, items[at, 1] + 1)
    pair_of = np.zeros((len(behind), widest), dtype=np.int32)
    pairs = np.empty((len(behind) * widest, 2), dtype=np.int32)
    is_row = np.zeros(len(first), dtype=np.bool_)
    is_row[begun] = True
    alike = np.full(len(byte_classes), -1, dtype=np.int32)
    kinds, first_of = np.empty(_FEW_KINDS, dtype=np.int32), np.empty(_FEW_KINDS, dtype=np.int32)
    num_pairs, num_edges, num_kinds, rows, done = 0, 0, 0, 1, 0
    if not is_lone:
        slots[_find(slots, items, first, first[begun], first[count])] = begun
    states = np.empty(size, dtype=np.int32)
    apart = np.zeros(width, dtype=np.bool_)
    number = begun
    while number < count:
        if not is_row[number]:
            number += 1
            continue
        begin, end = first[number], first[number + 1]
        apart[:] = False
        for at in range(begin, end):
            states[at - begin] = items[at, 0]
            if accepting[items[at, 0]]:
                alike[done] = done
                apart |= behind[rule_of[items[at, 0]]]
        if alike[done] == done:
            for kind in range(num_kinds):
                if _ends_alike(items, first, number, first_of[kind], accepting):
                    alike[done] = kinds[kind]
            if alike[done] == done and num_kinds < _FEW_KINDS:
                kinds[num_kinds], first_of[num_kinds] = done, number
                num_kinds += 1
        byte_class, columns, alone, byte_of = joint_columns(
            moves, byte_column, states[: end - begin], apart
        )
        byte_classes[done] = byte_class
        for group in range(len(alone)):
            edge = edges[num_edges]
            num_edges += 1
            edge[0], edge[1] = number, NOWHERE
            state, slot = DEAD, 0
            if columns[group, end - begin] != DEAD:
                edge[1], edge[2] = TO_EITHER, byte_of[group]
            elif alone[group] >= 0:
                state, slot = columns[group, alone[group]], items[begin + alone[group], 1]
            elif alone[group] == SEVERAL:
                if first[count] + size > len(items) or count + 2 > len(first):
                    return -1, is_row, alike, 0, pairs, pairs[:0]
                top = _reached(columns[group], items, begin, end, first[count])
                if top == first[count] + 1:
                    state, slot = items[first[count], 0], items[first[count], 1]
                else:
                    edge[1], edge[2] = TO_SET, count
                    place = _find(slots, items, first, first[count], top)
                    if slots[place] != -1:
                        edge[2] = slots[place]
                    else:
                        is_row[count] = rows < len(byte_classes) and _stays(
                            items, first[count], top, calling
                        )
                        if is_row[count]:
                            slots[place] = count
                            rows += 1
                        count += 1
                        first[count] = top
            if state != DEAD:
                rule = rule_of[state]
                if pair_of[rule, slot] == 0:
                    pairs[num_pairs, 0], pairs[num_pairs, 1] = rule, slot
                    num_pairs += 1
                    pair_of[rule, slot] = num_pairs
                edge[1], edge[2], edge[3] = TO_STATE, state, pair_of[rule, slot] - 1
        number += 1
        done += 1
    sides, num_sides = np.empty((num_edges, 2), dtype=np.int32), 0
    for at in range(num_edges):
        if edges[at, 1] == TO_EITHER:
            sides[num_sides, 0], sides[num_sides, 1] = edges[at, 0], edges[at, 2]
            num_sides += 1
    sides = sides[:num_sides].copy()
    return count, is_row[begun:count], alike[:done], num_edges, pairs[:num_pairs], sides


@making_kernel
def _stays(items, begin, end, calling):  # type: ignore[no-untyped-def]
    """Whether a set is a row as it is: no calls begin in it, each state came with one slot."""
    for at in range(begin, end):
        if calling[items[at, 0]] or (at > begin and items[at, 0] == items[at - 1, 0]):
            return False
    return True


@making_kernel
def _ends_alike(items, first, number, other, accepting):  # type: ignore[no-untyped-def]
    """Whether the rules of the same slots end in two sets, as far as their order tells."""
    at, place = first[number], first[other]
    while True:
        while at < first[number + 1] and not accepting[items[at, 0]]:
            at += 1
        while place < first[other + 1] and not accepting[items[place, 0]]:
            place += 1
        if at == first[number + 1] or place == first[other + 1]:
            return at == first[number + 1] and place == first[other + 1]
        if items[at, 1] != items[place, 1]:
            return False
        at += 1
        place += 1
