"""Compiled code for sets of states of a network, and the sets that bytes lead to.

A set is a sorted list of *items*: a state, and the slot of its continuation in the stack. All sets
are in one array, one after another; a hash table finds them::

    first      set    0        1           2                 set n: first[n] .. first[n + 1]
                      |        |           |
    items      state  4  7  9  4  12  13   8  ...            int32 [room, 2]
               slot   0  0  1  0   1   1   0
    buckets    . 1 . . 0 . 2 .                               set numbers, by hash of the items

Exploring a set finds the sets that bytes lead to inside the same rules, breadth first; they become
rows of the table. An edge, of a row and a class of bytes, is the set, one of four kinds, and its
operands::

    TO_STATE      state, pair  to a single state: a row of the block of its rule, for its slot;
                               the index of rule and slot in ``Explored.pairs``
    TO_SET        set          to another set
    TO_AMBIGUOUS  byte         read in the set and by what follows a rule that may end: Python
                               resolves it; a byte of the class
    NOWHERE                    not read in the set
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.table_kernels import NOWHERE, TO_AMBIGUOUS, TO_SET, TO_STATE
from guided.regular.dfa import DEAD
from guided.regular.equal_columns import SEVERAL_ROWS, distinct_columns
from guided.runtime.kernel import allocating_kernel

__all__ = ["Explored", "NetworkTables", "SetTables", "explore_sets", "fill_hash_table", "find_set"]

Ints: TypeAlias = NDArray[np.int32]

_STATE: Final = 0
_SLOT: Final = 1
"""Columns of items."""


class NetworkTables(NamedTuple):
    """The tables of a network that kernels read."""

    moves: NDArray[np.int32]
    """int32 ``[states, classes]``, DEAD for nowhere."""
    byte_class: NDArray[np.uint8]
    """uint8 ``[256]``."""
    accepting: NDArray[np.bool_]
    has_calls: NDArray[np.bool_]
    """Whether rules may end, and whether rules are called, in each state; bool ``[states]``."""
    rule_of: NDArray[np.int32]
    """The rule of each state, int32 ``[states]``."""
    follow: NDArray[np.bool_]
    """The FOLLOW set of each rule, bool ``[rules, classes]``."""


class SetTables(NamedTuple):
    """All sets; see the top of the module."""

    items: NDArray[np.int32]
    first: NDArray[np.int32]
    buckets: NDArray[np.int32]


# --- finding sets --------------------------------------------------------------------------


@allocating_kernel
def _hash(items: Ints, begin: int, end: int) -> np.uint64:
    """Return a hash of the items from ``begin`` to ``end``, in this order."""
    value = np.uint64(end - begin)
    for at in range(begin, end):
        mixed = np.uint64(items[at, 0]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(items[at, 1])
        value = (value ^ mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return value >> np.uint64(20)


@allocating_kernel
def _find_bucket(sets: SetTables, begin: int, end: int) -> np.uint64:
    """Return the index of the bucket of the set with the items from ``begin`` to ``end``.

    It is a free one if no bucket has that set. One is always free: there are four times as many
    buckets as there is room for sets. Their number is a power of two.
    """
    items, first, buckets = sets.items, sets.first, sets.buckets
    mask = np.uint64(len(buckets) - 1)
    bucket: np.uint64 = _hash(items, begin, end) & mask
    while buckets[bucket] != -1:
        other_begin = first[buckets[bucket]]
        if first[buckets[bucket] + 1] - other_begin == end - begin:
            same = True
            for offset in range(end - begin):
                for column in range(2):
                    same &= items[other_begin + offset, column] == items[begin + offset, column]
            if same:
                break
        bucket = (bucket + np.uint64(1)) & mask
    return bucket


@allocating_kernel
def find_set(sets: SetTables, begin: int, end: int) -> int:
    """Return the set with the items from ``begin`` to ``end``, -1 if the hash table has none."""
    return int(sets.buckets[_find_bucket(sets, begin, end)])


@allocating_kernel
def fill_hash_table(sets: SetTables, rows: Ints, count: int) -> None:
    """Fill the hash table with those of the first ``count`` sets that have ``rows``."""
    sets.buckets[:] = -1
    for number in range(count):
        if rows[number] != DEAD:
            sets.buckets[_find_bucket(sets, sets.first[number], sets.first[number + 1])] = number


# --- exploring -----------------------------------------------------------------------------


class Explored(NamedTuple):
    """A set, and those that bytes lead to; "by row" is by set that becomes one, in their order."""

    first_set: int
    """The number of the given set; the others follow it."""
    num_sets: int
    """The number of all sets now, -1 if there was no room for more."""
    becomes_row: NDArray[np.bool_]
    """By set from ``first_set`` on, whether it becomes a row. The first does: the items that its
    calls add are in it. The others do not if they call rules, have a state in two slots, or there
    was no room for more rows; these are not explored further."""
    ending_slots: NDArray[np.bool_]
    """The slots of the rules that end, by row; bool ``[rows, slots]``."""
    byte_classes: NDArray[np.uint8]
    edges: NDArray[np.int32]
    """Arguments of ``TransitionTable.add_sets``, for the sets that become rows: the parts written
    of the arrays given."""
    pairs: NDArray[np.int32]
    """Rule and slot of the single states that bytes lead to, int32 ``[pairs, 2]``; TO_STATE lines
    of ``edges`` have indices into it."""
    ambiguous: NDArray[np.int32]
    """Set and byte of the TO_AMBIGUOUS edges, int32 ``[count, 2]``."""


@allocating_kernel
def explore_sets(
    network: NetworkTables,
    sets: SetTables,
    count: int,
    is_private: bool,
    byte_classes: NDArray[np.uint8],
    edges: Ints,
) -> Explored:
    """Find the sets that bytes lead to from a set, inside the same rules.

    Begins at the last of the ``count`` sets; with ``is_private`` it is not put into the hash table,
    so no byte leads to it. Sets that are found are added after it.

    Writes for each set that becomes a row the class of each byte, uint8 ``[sets, 256]``, and by set
    and class a line of ``edges``, int32 ``[edges, 4]``, which must have a line for each class of
    the network and line of ``byte_classes``. If the arrays of ``sets`` are full, ``num_sets`` of
    the result is -1 and nothing found may be kept.
    """
    items, first, start = sets.items, sets.first, count - 1
    # Each item leads to at most one item, so no set has more items than the first.
    size = first[count] - first[start]
    becomes_row = np.zeros(len(first), dtype=np.bool_)
    becomes_row[start] = True
    pair_of = _empty_pair_table(items, first[start], first[count], len(network.follow))
    pairs, num_pairs = np.empty((pair_of.size, 2), dtype=np.int32), 0
    ending_slots = np.zeros((len(byte_classes), pair_of.shape[1]), dtype=np.bool_)
    num_edges, num_rows, num_explored = 0, 1, 0
    if not is_private:
        sets.buckets[_find_bucket(sets, first[start], first[count])] = start
    may_follow = np.zeros(network.moves.shape[1], dtype=np.bool_)
    number = start - 1
    while number + 1 < count:
        number += 1
        if not becomes_row[number]:
            continue
        begin, end = first[number], first[number + 1]
        _mark_ends(network, items, begin, end, may_follow, ending_slots[num_explored])
        byte_classes[num_explored], columns, only_reader, byte_of = distinct_columns(
            network.moves, network.byte_class, items[begin:end, _STATE].copy(), may_follow
        )
        num_explored += 1
        for group, reader in enumerate(only_reader):
            edge = edges[num_edges]
            num_edges += 1
            edge[0], edge[1] = number, NOWHERE
            state, slot = DEAD, 0
            # The last column is not DEAD for classes that are read here and marked in
            # ``may_follow``: they may also follow a rule that ends in this set.
            if columns[group, end - begin] != DEAD:
                edge[1], edge[2] = TO_AMBIGUOUS, byte_of[group]
            elif reader >= 0:
                state, slot = columns[group, reader], items[begin + reader, _SLOT]
            elif reader == SEVERAL_ROWS:
                if first[count] + size > len(items) or count + 2 > len(first):
                    return Explored(
                        start, -1, becomes_row, ending_slots, byte_classes, edges, pairs, pairs
                    )
                top = _write_reached(columns[group], items, begin, end, first[count])
                if top == first[count] + 1:
                    state, slot = items[first[count], _STATE], items[first[count], _SLOT]
                else:
                    has_room = num_rows < len(byte_classes)
                    edge[1] = TO_SET
                    edge[2] = _intern_set(network, sets, count, top, becomes_row, has_room)
                    if edge[2] == count:
                        num_rows += becomes_row[count]
                        count += 1
            if state != DEAD:
                pair, num_pairs = _intern_pair(network, state, slot, pair_of, pairs, num_pairs)
                edge[1], edge[2], edge[3] = TO_STATE, state, pair
    return Explored(
        start,
        count,
        becomes_row[start:count],
        ending_slots[:num_explored],
        byte_classes[:num_explored],
        edges[:num_edges],
        pairs[:num_pairs],
        _list_ambiguous(edges, num_edges),
    )


@allocating_kernel
def _intern_pair(
    network: NetworkTables, state: int, slot: int, pair_of: Ints, pairs: Ints, num_pairs: int
) -> tuple[int, int]:
    """Return the index of a state's rule and a slot in ``pairs``, and the new number of pairs.

    A new pair is added to ``pairs`` and ``pair_of``, which has the index of each pair.
    """
    rule = network.rule_of[state]
    if pair_of[rule, slot] == -1:
        pair_of[rule, slot] = num_pairs
        pairs[num_pairs, 0], pairs[num_pairs, 1] = rule, slot
        num_pairs += 1
    return pair_of[rule, slot], num_pairs


@allocating_kernel
def _intern_set(
    network: NetworkTables,
    sets: SetTables,
    count: int,
    top: int,
    becomes_row: NDArray[np.bool_],
    has_room: bool,
) -> int:
    """Return the number of the set whose items were written after all others, up to ``top``.

    It is that of an equal set, or ``count``, which the caller then increments. ``has_room`` says
    whether there may be one more row. A new set that becomes a row is marked in ``becomes_row``;
    only such sets are put into the hash table, as later look-ups need a row. The others are added
    anew each time that bytes lead to them.
    """
    bucket = _find_bucket(sets, sets.first[count], top)
    if sets.buckets[bucket] != -1:
        return int(sets.buckets[bucket])
    sets.first[count + 1] = top
    if has_room and _can_be_row(network, sets.items, sets.first[count], top):
        becomes_row[count] = True
        sets.buckets[bucket] = count
    return count


@allocating_kernel
def _empty_pair_table(items: Ints, begin: int, end: int, rules: int) -> Ints:
    """Return the empty table of ``_intern_pair``: -1 by rule and slot, int32 ``[rules, slots]``.

    It has the slots of the items from ``begin`` to ``end``, as bytes lead to no others.
    """
    slots = 1
    for at in range(begin, end):
        slots = max(slots, items[at, _SLOT] + 1)
    return np.full((rules, slots), -1, dtype=np.int32)


@allocating_kernel
def _mark_ends(
    network: NetworkTables,
    items: Ints,
    begin: int,
    end: int,
    may_follow: NDArray[np.bool_],
    ending_slots: NDArray[np.bool_],
) -> None:
    """Set ``may_follow``, bool ``[classes]``, to the FOLLOW sets of the rules that end in a set.

    Marks their slots in ``ending_slots``, bool ``[slots]``.
    """
    may_follow[:] = False
    for at in range(begin, end):
        state = items[at, _STATE]
        if network.accepting[state]:
            ending_slots[items[at, _SLOT]] = True
            may_follow |= network.follow[network.rule_of[state]]


@allocating_kernel
def _write_reached(column: Ints, items: Ints, begin: int, end: int, to: int) -> int:
    """Write the items that a byte leads to, sorted and unique, from ``to`` on; returns their end.

    ``column`` has the target of each item from ``begin`` to ``end``, DEAD for none. There must be
    room for as many items. An insertion sort, as sets are small and nearly sorted.
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


@allocating_kernel
def _is_after(item: Ints, state: int, slot: int) -> bool:
    """Return whether an item comes after the one of a state and a slot in the order of items."""
    return bool(item[_STATE] > state or (item[_STATE] == state and item[_SLOT] > slot))


@allocating_kernel
def _can_be_row(network: NetworkTables, items: Ints, begin: int, end: int) -> bool:
    """Return whether a set can be a row: it calls no rules, and has each state in one slot.

    Items are sorted, so those of one state are adjacent.
    """
    for at in range(begin, end):
        if network.has_calls[items[at, _STATE]]:
            return False
        if at > begin and items[at, _STATE] == items[at - 1, _STATE]:
            return False
    return True


@allocating_kernel
def _list_ambiguous(edges: Ints, num_edges: int) -> Ints:
    """Return set and byte of each TO_AMBIGUOUS edge, in the order that ``add_sets`` relies on."""
    ambiguous, count = np.empty((num_edges, 2), dtype=np.int32), 0
    for at in range(num_edges):
        if edges[at, 1] == TO_AMBIGUOUS:
            ambiguous[count, 0], ambiguous[count, 1] = edges[at, 0], edges[at, 2]
            count += 1
    return ambiguous[:count].copy()
