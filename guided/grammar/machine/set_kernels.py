"""Compiled code for sets of states of a network, and where bytes lead from them.

A set is a sorted list of *items*: a state, and the slot of the stack that holds what follows the
state's rule. All sets stand in one array, one after another; a hash table finds them again::

    first      set    0        1           2                 set n: first[n] .. first[n + 1]
                      |        |           |
    items      state  4  7  9  4  12  13   8  ...            int32 [room, 2]
               slot   0  0  1  0   1   1   0
    buckets    . 1 . . 0 . 2 .                               set numbers, by hash of the items

Exploring a set lays down *rows*: the sets that bytes lead to inside the same rules, nearest
first. Bytes of a class lead from a row in one of four ways::

    TO_STATE   to a single state: a row of the block of its rule, for its slot
    TO_SET     to another set
    TO_EITHER  into the set, or on to what follows the rules that end in it: Python decides
    NOWHERE    not inside these rules at all
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.table_kernels import NOWHERE, TO_EITHER, TO_SET, TO_STATE
from guided.regular.dfa import DEAD
from guided.regular.equal_columns import SEVERAL, joint_columns
from guided.runtime.kernel import making_kernel

__all__ = ["Explored", "NetworkTables", "SetTables", "enter_sets", "explore_sets", "find_set"]

Ints: TypeAlias = NDArray[np.int32]

_FEW_ENDS: Final = 8
"""The most ends with which a set is compared."""
_STATE: Final = 0
_SLOT: Final = 1
"""Columns of items."""


class NetworkTables(NamedTuple):
    """What is read of a network."""

    moves: NDArray[np.int32]
    """int32 ``[states, classes]``, DEAD for nowhere."""
    byte_class: NDArray[np.uint8]
    """uint8 ``[256]``."""
    accepting: NDArray[np.bool_]
    calling: NDArray[np.bool_]
    """Whether rules may end, and whether calls begin, in each state; bool ``[states]``."""
    rule_of: NDArray[np.int32]
    """The rule that each state belongs to, int32 ``[states]``."""
    follow: NDArray[np.bool_]
    """The classes of bytes that may follow each rule, bool ``[rules, classes]``."""


class SetTables(NamedTuple):
    """All sets; see the top of the module."""

    items: NDArray[np.int32]
    first: NDArray[np.int32]
    buckets: NDArray[np.int32]


# --- finding sets --------------------------------------------------------------------------


@making_kernel
def _hash(items: Ints, begin: int, end: int) -> np.uint64:
    """Return a hash of the items from ``begin`` to ``end``, in this order."""
    value = np.uint64(end - begin)
    for at in range(begin, end):
        mixed = np.uint64(items[at, 0]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(items[at, 1])
        value = (value ^ mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return value >> np.uint64(20)


@making_kernel
def _bucket(sets: SetTables, begin: int, end: int) -> np.uint64:
    """Return the bucket of the set with the items from ``begin`` to ``end``, or where it belongs.

    One is always free: ``StateSets`` has four times as many as there is room for sets. Their number
    is a power of two.
    """
    items, first, buckets = sets.items, sets.first, sets.buckets
    mask = np.uint64(len(buckets) - 1)
    bucket: np.uint64 = _hash(items, begin, end) & mask
    while buckets[bucket] != -1:
        other = first[buckets[bucket]]
        if first[buckets[bucket] + 1] - other == end - begin:
            same = True
            for at in range(end - begin):
                for part in range(2):
                    same &= items[other + at, part] == items[begin + at, part]
            if same:
                break
        bucket = (bucket + np.uint64(1)) & mask
    return bucket


@making_kernel
def find_set(sets: SetTables, begin: int, end: int) -> int:
    """Return the set with the items from ``begin`` to ``end``, -1 if the table has none."""
    return int(sets.buckets[_bucket(sets, begin, end)])


@making_kernel
def enter_sets(sets: SetTables, rows: Ints, count: int) -> None:
    """Enter those of the first ``count`` sets that have rows to lead to into the hash table.

    All others are removed from it.
    """
    sets.buckets[:] = -1
    for number in range(count):
        if rows[number] != DEAD:
            sets.buckets[_bucket(sets, sets.first[number], sets.first[number + 1])] = number


# --- exploring -----------------------------------------------------------------------------


class Explored(NamedTuple):
    """What was found; rows are those of the explored sets that are rows, in their order."""

    num_sets: int
    """The number of all sets now, -1 if there is no room for more."""
    is_row: NDArray[np.bool_]
    """By set from the first explored on, whether it has to be a row."""
    ends_like: NDArray[np.int32]
    """By row one whose set ends in the same slots (``_like``), -1 if no rule ends in the set."""
    num_edges: int
    """The number of lines of ``edges`` that were written."""
    pairs: NDArray[np.int32]
    """Rules and slots of the single states that are led to, int32 ``[pairs, 2]``."""
    sides: NDArray[np.int32]
    """Sets and bytes of the edges that are TO_EITHER, int32 ``[sides, 2]``."""


@making_kernel
def explore_sets(
    network: NetworkTables,
    sets: SetTables,
    count: int,
    is_lone: bool,
    byte_classes: NDArray[np.uint8],
    edges: Ints,
) -> Explored:
    """Find where bytes lead from a set, and from all sets inside the same rules on the way.

    Begins at the last of the ``count`` sets; with ``is_lone`` it is not entered into the hash
    table, so no byte leads to it. Sets that are found are added after it. Such a set becomes a row
    if no calls begin in it, each state came with one slot, and there is room for its line of
    ``byte_classes``; others are numbered, but not explored further.

    Writes for each set that becomes a row the class of each byte, uint8 ``[sets, 256]``, and by set
    and class a line of ``edges``, int32 ``[edges, 4]``: the set, how bytes lead on, and where::

        TO_STATE   a state, and the place in ``pairs`` of its rule and slot
        TO_SET     a set
        TO_EITHER  a byte of the class

    ``edges`` must have a line for each class of the network and line of ``byte_classes``. If the
    arrays of ``sets`` are full, ``num_sets`` of the result is -1 and nothing found may be kept.
    """
    items, first, begun = sets.items, sets.first, count - 1
    # Each item leads to at most one, so no set that is found has more items than the first.
    size = first[count] - first[begun]
    is_row = np.zeros(len(first), dtype=np.bool_)
    is_row[begun] = True
    ends_like = np.full(len(byte_classes), -1, dtype=np.int32)
    known_ends, num_known = np.empty((_FEW_ENDS, 2), dtype=np.int32), 0
    pair_of = _no_pairs(items, first[begun], first[count], len(network.follow))
    pairs, num_pairs = np.empty((pair_of.size, 2), dtype=np.int32), 0
    num_edges, num_rows, done = 0, 1, 0
    if not is_lone:
        sets.buckets[_bucket(sets, first[begun], first[count])] = begun
    apart = np.zeros(network.moves.shape[1], dtype=np.bool_)
    number = begun - 1
    while number + 1 < count:
        number += 1
        if not is_row[number]:
            continue
        begin, end = first[number], first[number + 1]
        if _mark_follow(network, items, begin, end, apart):
            ends_like[done], num_known = _like(sets, number, done, network, known_ends, num_known)
        byte_classes[done], columns, alone, byte_of = joint_columns(
            network.moves, network.byte_class, items[begin:end, _STATE].copy(), apart
        )
        done += 1
        for group in range(len(alone)):
            edge = edges[num_edges]
            num_edges += 1
            edge[0], edge[1] = number, NOWHERE
            state, slot = DEAD, 0
            # The last column is not DEAD for classes marked ``apart``: they may also follow a rule
            # that ends in this set, so Python has to take both ways.
            if columns[group, end - begin] != DEAD:
                edge[1], edge[2] = TO_EITHER, byte_of[group]
            elif alone[group] >= 0:
                state, slot = columns[group, alone[group]], items[begin + alone[group], _SLOT]
            elif alone[group] == SEVERAL:
                if first[count] + size > len(items) or count + 2 > len(first):
                    return Explored(-1, is_row, ends_like, 0, pairs, pairs[:0])
                top = _write_reached(columns[group], items, begin, end, first[count])
                if top == first[count] + 1:
                    state, slot = items[first[count], _STATE], items[first[count], _SLOT]
                else:
                    has_room = num_rows < len(byte_classes)
                    edge[1] = TO_SET
                    edge[2] = _set_written(network, sets, count, top, is_row, has_room)
                    if edge[2] == count:
                        num_rows += is_row[count]
                        count += 1
            if state != DEAD:
                pair, num_pairs = _pair(network.rule_of[state], slot, pair_of, pairs, num_pairs)
                edge[1], edge[2], edge[3] = TO_STATE, state, pair
    sides = _sides(edges, num_edges)
    found = is_row[begun:count]
    return Explored(count, found, ends_like[:done], num_edges, pairs[:num_pairs], sides)


@making_kernel
def _pair(rule: int, slot: int, pair_of: Ints, pairs: Ints, num_pairs: int) -> tuple[int, int]:
    """Return the place of a rule and a slot in ``pairs``, and the number of pairs after the call.

    ``pair_of`` has the place of each existing pair, see ``_no_pairs``; both are written.
    """
    if pair_of[rule, slot] == -1:
        pair_of[rule, slot] = num_pairs
        pairs[num_pairs, 0], pairs[num_pairs, 1] = rule, slot
        num_pairs += 1
    return pair_of[rule, slot], num_pairs


@making_kernel
def _set_written(
    network: NetworkTables,
    sets: SetTables,
    count: int,
    top: int,
    is_row: NDArray[np.bool_],
    has_room: bool,
) -> int:
    """Return the number of the set whose items stand after all others, up to ``top``.

    A known set, or ``count``: the caller then counts one set more. ``has_room`` says whether there
    may be one more row. ``is_row`` is marked for a new set that becomes one; only such sets are
    entered into the hash table.
    """
    bucket = _bucket(sets, sets.first[count], top)
    if sets.buckets[bucket] != -1:
        return int(sets.buckets[bucket])
    sets.first[count + 1] = top
    if has_room and _can_be_row(network, sets.items, sets.first[count], top):
        is_row[count] = True
        sets.buckets[bucket] = count
    return count


@making_kernel
def _no_pairs(items: Ints, begin: int, end: int, rules: int) -> Ints:
    """Return by rule and slot the number of their pair, -1 while there is none.

    It has room for the slots of the items from ``begin`` to ``end``: bytes lead to no others.
    """
    slots = 1
    for at in range(begin, end):
        slots = max(slots, items[at, _SLOT] + 1)
    return np.full((rules, slots), -1, dtype=np.int32)


@making_kernel
def _mark_follow(
    network: NetworkTables, items: Ints, begin: int, end: int, apart: NDArray[np.bool_]
) -> bool:
    """Mark the classes that may follow what ends in a set; returns whether anything ends there.

    ``apart``, bool ``[classes]``, is overwritten: the others are marked False.
    """
    apart[:] = False
    ends = False
    for at in range(begin, end):
        state = items[at, _STATE]
        if network.accepting[state]:
            ends = True
            apart |= network.follow[network.rule_of[state]]
    return ends


@making_kernel
def _like(
    sets: SetTables,
    number: int,
    row: int,
    network: NetworkTables,
    known_ends: Ints,
    num_known: int,
) -> tuple[int, int]:
    """Return the row of a set whose accepting states have equal slots, and how many ends are known.

    ``row`` is that of set ``number`` itself, returned if no other is found. ``known_ends`` has
    a set and its row for each list of slots met so far, int32 ``[_FEW_ENDS, 2]``; a new one is
    added while there is room. ``_labels_of_ends`` examines what is missed again and finds the same
    label.
    """
    # The latest first: successive sets mostly end alike.
    for known in range(num_known - 1, -1, -1):
        if _end_alike(sets.items, sets.first, number, known_ends[known, 0], network.accepting):
            return known_ends[known, 1], num_known
    if num_known < len(known_ends):
        known_ends[num_known, 0], known_ends[num_known, 1] = number, row
        num_known += 1
    return row, num_known


@making_kernel
def _end_alike(
    items: Ints, first: Ints, number: int, other: int, accepting: NDArray[np.bool_]
) -> bool:
    """Return whether the slots of the states that end rules are the same in two sets, in order.

    False if they are the same in another order: see ``_like`` for why that does no harm.
    """
    at, place = first[number], first[other]
    while True:
        while at < first[number + 1] and not accepting[items[at, _STATE]]:
            at += 1
        while place < first[other + 1] and not accepting[items[place, _STATE]]:
            place += 1
        if at == first[number + 1] or place == first[other + 1]:
            return bool(at == first[number + 1] and place == first[other + 1])
        if items[at, _SLOT] != items[place, _SLOT]:
            return False
        at += 1
        place += 1


@making_kernel
def _write_reached(column: Ints, items: Ints, begin: int, end: int, to: int) -> int:
    """Write the items that a byte leads to from ``to`` on, sorted, each once; returns their end.

    ``column`` has the target of each item from ``begin`` to ``end``, DEAD for none. There must be
    room for as many items. Insertion sort: sets are small, and their targets are nearly sorted.
    """
    top = to
    for at in range(begin, end):
        state, slot = column[at - begin], items[at, _SLOT]
        if state == DEAD:
            continue
        place = top
        while place > to and _is_after(items[place - 1], state, slot):
            place -= 1
        if place > to and items[place - 1, _STATE] == state and items[place - 1, _SLOT] == slot:
            continue
        for other in range(top, place, -1):
            items[other, _STATE], items[other, _SLOT] = items[other - 1, 0], items[other - 1, 1]
        items[place, _STATE], items[place, _SLOT] = state, slot
        top += 1
    return top


@making_kernel
def _is_after(item: Ints, state: int, slot: int) -> bool:
    return bool(item[_STATE] > state or (item[_STATE] == state and item[_SLOT] > slot))


@making_kernel
def _can_be_row(network: NetworkTables, items: Ints, begin: int, end: int) -> bool:
    """Return whether a set can be a row: no calls begin in it, and each state came with one slot.

    Its items are sorted, so those of one state stand side by side.
    """
    for at in range(begin, end):
        if network.calling[items[at, _STATE]]:
            return False
        if at > begin and items[at, _STATE] == items[at - 1, _STATE]:
            return False
    return True


@making_kernel
def _sides(edges: Ints, num_edges: int) -> Ints:
    """Sets and bytes of the edges that are TO_EITHER, in the order that ``add_sets`` relies on."""
    sides, count = np.empty((num_edges, 2), dtype=np.int32), 0
    for at in range(num_edges):
        if edges[at, 1] == TO_EITHER:
            sides[count, 0], sides[count, 1] = edges[at, 0], edges[at, 2]
            count += 1
    return sides[:count].copy()
