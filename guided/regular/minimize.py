"""Minimization of automata: states are trimmed, then equal ones are merged.

States are equal when the same texts lead on from them to the same labels. Hopcroft's algorithm
(1971) finds them by *refining a partition*: at first two states are in one block if they have the
same label. A block is a *splitter* of another one if by some class a part of the other one leads
into it and a part does not; the other one is then split into these two. The smaller part has to be
tried as a splitter in turn, which makes O(moves * log states) steps. When no splitter is left,
states of one block are equal::

    order     2 0 | 3 1 4          the states, block by block
    begin     0     2              where block b begins and ends in it
    end             2     5
    place     1 4 0 2 3            where each state stands in the order
    block_of  0 1 0 1 1
    marked    0     1              the first states of a block that lead into the splitter

A move that is missing needs no splitter: states that agree on all other moves agree on it too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.regular.equal_columns import group_classes
from guided.regular.transitions import (
    Moves,
    MovesInto,
    moves_by_state,
    moves_into,
    spread,
    table_from_moves,
)
from guided.runtime.kernel import allocating_kernel, inlined

__all__ = ["minimize", "minimize_moves", "minimize_with_columns"]


def minimize(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the minimal automaton of int32 ``[states, classes]`` moves and ``[states]`` labels.

    -1 stands for no move and for no label. States that state 0 does not lead to, or that lead to no
    label, are removed, and equal ones are merged. State 0 stays first, the others keep the order of
    the first state of each block.
    """
    if not len(label):
        return table, label
    return _minimize(
        np.ascontiguousarray(table, dtype=np.int32), np.ascontiguousarray(label, dtype=np.int32)
    )


@allocating_kernel
def _minimize(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Compute ``minimize``; the arrays must be contiguous."""
    width = table.shape[1]
    moves, label = minimize_moves(moves_by_state(table), label, width, False)
    return table_from_moves(moves, np.arange(width).astype(np.int32), width), label


@allocating_kernel
def minimize_with_columns(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Minimize as ``minimize`` does, with one column for all classes that no state distinguishes.

    Classes without moves have none. Returns the table, the labels, and the column of each class,
    int32 ``[classes]``, -1 for none.
    """
    moves, label = minimize_moves(moves_by_state(table), label, table.shape[1], False)
    group, groups = group_classes(moves, table.shape[1])
    return table_from_moves(moves, group, groups), label, group


@allocating_kernel
def minimize_moves(
    moves: Moves, label: NDArray[np.int32], width: int, all_reachable: bool
) -> tuple[Moves, NDArray[np.int32]]:
    """Minimize as ``minimize`` does, from moves that read classes below ``width``.

    ``all_reachable`` says that state 0 is known to lead to all the others. May return the arrays
    that were passed in.
    """
    if not len(label):
        return moves, label
    into = moves_into(moves)
    live = spread(into.first, into.sources, label != -1)
    if not all_reachable:
        live &= spread(moves.first, moves.targets, np.arange(len(label)) == 0)
    if not live.all():
        moves, label = _keep_live(moves, label, live)
        into = moves_into(moves)
    if len(label) < 2:
        return moves, label
    return _merge_blocks(moves, label, _refine(into, label, width))


@allocating_kernel
def _keep_live(
    moves: Moves, label: NDArray[np.int32], live: NDArray[np.bool_]
) -> tuple[Moves, NDArray[np.int32]]:
    """Return the automaton of the live states, in their order; without states if 0 is not live."""
    count = len(label)
    number = np.full(count, -1, dtype=np.int32)
    members = np.empty(count, dtype=np.int32)
    kept = 0
    if live[0]:
        for state in range(count):
            if live[state]:
                number[state], members[kept] = kept, state
                kept += 1
    return _select_states(moves, label, members[:kept], number)


@allocating_kernel
def _merge_blocks(
    moves: Moves, label: NDArray[np.int32], block_of: NDArray[np.int32]
) -> tuple[Moves, NDArray[np.int32]]:
    """Return the automaton with one state for each block, numbered by their first states.

    Its moves and its label are those of the first state, as equal states have the same labels and
    lead to the same blocks. Returns the arrays passed in if no two states are equal.
    """
    count = len(label)
    number_of = np.full(count, -1, dtype=np.int32)
    members = np.empty(count, dtype=np.int32)
    new_number = np.empty(count, dtype=np.int32)
    blocks = 0
    for state in range(count):
        block = block_of[state]
        if number_of[block] == -1:
            number_of[block], members[blocks] = blocks, state
            blocks += 1
        new_number[state] = number_of[block]
    if blocks == count:
        return moves, label
    return _select_states(moves, label, members[:blocks], new_number)


@allocating_kernel
def _select_states(
    moves: Moves,
    label: NDArray[np.int32],
    members: NDArray[np.int32],
    new_number: NDArray[np.int32],
) -> tuple[Moves, NDArray[np.int32]]:
    """Return the moves and labels of some states.

    ``members`` are these states in their new order; ``new_number`` has the new number of each old
    state. Moves to states whose new number is -1 are removed.
    """
    count, size = len(members), 0
    for state in members:
        size += moves.first[state + 1] - moves.first[state]
    first = np.empty(count + 1, dtype=np.int32)
    classes = np.empty(size, dtype=np.int32)
    targets = np.empty(size, dtype=np.int32)
    top = 0
    for number in range(count):
        first[number] = top
        for at in range(moves.first[members[number]], moves.first[members[number] + 1]):
            target = new_number[moves.targets[at]]
            if target != -1:
                classes[top], targets[top] = moves.classes[at], target
                top += 1
    first[count] = top
    return Moves(first, classes[:top], targets[:top]), label[members]


class _Partition(NamedTuple):
    """Blocks of states; see the example above.

    All arrays are int32 ``[states]``, and ``_mark`` and ``_split`` change them in place. ``marked``
    is 0 except while the splits by one class are computed.
    """

    order: NDArray[np.int32]
    place: NDArray[np.int32]
    block_of: NDArray[np.int32]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    marked: NDArray[np.int32]


@allocating_kernel
def _refine(into: MovesInto, label: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """Return the block of each state in the coarsest partition (Hopcroft's algorithm).

    A state has at most one move by each class, as the automaton is deterministic. So each state is
    marked at most once for a class of the splitter, which ``_mark`` relies on.
    """
    count = len(label)
    partition, blocks = _partition_by_label(label)
    order, begin, end = partition.order, partition.begin, partition.end
    # Splitters still to be tried, at first all blocks; there are never more blocks than states.
    pending = np.arange(count).astype(np.int32)
    num_pending = blocks
    touched = np.empty(count, dtype=np.int32)
    # The moves into the splitter as lists, one for each class that some of them read. They are
    # recorded before any block is split, as the splitter may split itself.
    head = np.full(width, -1, dtype=np.int32)
    next_ = np.empty(len(into.sources), dtype=np.int32)
    read = np.empty(width, dtype=np.int32)
    while num_pending:
        num_pending -= 1
        splitter = pending[num_pending]
        num_read = 0
        for at in range(begin[splitter], end[splitter]):
            for edge in range(into.first[order[at]], into.first[order[at] + 1]):
                index = into.classes[edge]
                if head[index] == -1:
                    read[num_read] = index
                    num_read += 1
                next_[edge] = head[index]
                head[index] = edge
        # For each class: mark the states that lead into the splitter, then split every block in
        # which only some states are marked.
        for turn in range(num_read):
            num_touched = 0
            edge = head[read[turn]]
            head[read[turn]] = -1
            while edge != -1:
                block = partition.block_of[into.sources[edge]]
                if partition.marked[block] == 0:
                    touched[num_touched] = block
                    num_touched += 1
                _mark(partition, into.sources[edge], block)
                edge = next_[edge]
            for at in range(num_touched):
                if _split(partition, touched[at], blocks):
                    pending[num_pending] = blocks
                    num_pending += 1
                    blocks += 1
    return partition.block_of


@allocating_kernel
def _partition_by_label(label: NDArray[np.int32]) -> tuple[_Partition, int]:
    """Return the partition with one block for each label, and the number of blocks."""
    count = len(label)
    # A stable sort leaves the states of a label ascending, as moves are stored. This is only for
    # speed: any order in a block gives the same result, as ``_merge_blocks`` renumbers blocks.
    order = np.argsort(label, kind="mergesort").astype(np.int32)
    place = np.empty(count, dtype=np.int32)
    block_of = np.empty(count, dtype=np.int32)
    begin = np.empty(count, dtype=np.int32)
    end = np.empty(count, dtype=np.int32)
    blocks = 0
    for at in range(count):
        state = order[at]
        if at == 0 or label[state] != label[order[at - 1]]:
            begin[blocks] = at
            blocks += 1
        place[state], block_of[state] = at, blocks - 1
        end[blocks - 1] = at + 1
    marked = np.zeros(count, dtype=np.int32)
    return _Partition(order, place, block_of, begin, end, marked), blocks


@inlined
def _mark(partition: _Partition, state: int, block: int) -> None:
    """Mark a state that leads into the splitter: move it to the front of its block, once."""
    order, place = partition.order, partition.place
    here, there = place[state], partition.begin[block] + partition.marked[block]
    other = order[there]
    order[here], order[there] = other, state
    place[other], place[state] = here, there
    partition.marked[block] += 1


@inlined
def _split(partition: _Partition, block: int, new_block: int) -> bool:
    """Make the smaller part of a block the block ``new_block``; False if all states are marked.

    At least one is marked before, and none afterwards. The new block always has to be tried as a
    splitter: if the old one still has to be, both parts have to be, and if it was already, the
    smaller part is enough.
    """
    begin, end = partition.begin, partition.end
    cut = begin[block] + partition.marked[block]
    partition.marked[block] = 0
    if cut == end[block]:
        return False
    if cut - begin[block] <= end[block] - cut:
        begin[new_block], end[new_block] = begin[block], cut
        begin[block] = cut
    else:
        begin[new_block], end[new_block] = cut, end[block]
        end[block] = cut
    for at in range(begin[new_block], end[new_block]):
        partition.block_of[partition.order[at]] = new_block
    return True
