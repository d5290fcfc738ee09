"""The minimal automaton of labelled moves: trimming, then merging states that are equal.

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

from guided.regular.equal_columns import column_groups
from guided.regular.transitions import Moves, MovesInto, moves_by_state, moves_into, table_of
from guided.runtime.kernel import inlined, making_kernel

__all__ = ["minimal", "minimal_columns", "smallest"]


def minimal(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the minimal automaton of int32 ``[states, classes]`` moves and ``[states]`` labels.

    -1 stands for no move and for no label. States that state 0 does not lead to, or that lead to no
    label, are removed. States keep the order of the first ones of their blocks, so state 0 stays
    first.
    """
    if not len(label):
        return table, label
    return _minimal(
        np.ascontiguousarray(table, dtype=np.int32), np.ascontiguousarray(label, dtype=np.int32)
    )


@making_kernel
def _minimal(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Compute ``minimal`` in compiled code, for arrays of one layout."""
    width = table.shape[1]
    moves, label = smallest(moves_by_state(table), label, width, False)
    return table_of(moves, np.arange(width).astype(np.int32), width), label


@making_kernel
def minimal_columns(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """``minimal``, with one column for all classes that no state distinguishes.

    Classes without moves have none. Also returns the column of each class, int32 ``[classes]``, -1
    for none.
    """
    moves, label = smallest(moves_by_state(table), label, table.shape[1], False)
    group, groups = column_groups(moves, table.shape[1])
    return table_of(moves, group, groups), label, group


@making_kernel
def smallest(
    moves: Moves, label: NDArray[np.int32], width: int, all_found: bool
) -> tuple[Moves, NDArray[np.int32]]:
    """``minimal`` of moves, which read classes below ``width``.

    ``all_found`` says that state 0 is known to lead to all the others. States keep the order of
    the first ones of their blocks. May return the arrays that were passed in.
    """
    if not len(label):
        return moves, label
    into = moves_into(moves)
    live = _live(moves, into, label, all_found)
    if not live.all():
        moves, label = _only(moves, label, live)
        into = moves_into(moves)
    if len(label) < 2:
        return moves, label
    return _merged(moves, label, _coarsest(into, label, width))


@making_kernel
def _live(
    moves: Moves, into: MovesInto, label: NDArray[np.int32], all_found: bool
) -> NDArray[np.bool_]:
    """Return whether state 0 leads to each state, and that state to a label."""
    count = len(label)
    found = np.full(count, all_found)
    stack = np.empty(count, dtype=np.int32)
    if not all_found:
        stack[0], top = 0, 1
        found[0] = True
        while top:
            top -= 1
            state = stack[top]
            for at in range(moves.first[state], moves.first[state + 1]):
                target = moves.targets[at]
                if not found[target]:
                    found[target] = True
                    stack[top] = target
                    top += 1
    # Backwards from labels, and only through states that the start leads to.
    live = np.zeros(count, dtype=np.bool_)
    top = 0
    for state in range(count):
        if found[state] and label[state] != -1:
            live[state] = True
            stack[top] = state
            top += 1
    while top:
        top -= 1
        state = stack[top]
        for at in range(into.first[state], into.first[state + 1]):
            source = into.sources[at]
            if found[source] and not live[source]:
                live[source] = True
                stack[top] = source
                top += 1
    return live


@making_kernel
def _only(
    moves: Moves, label: NDArray[np.int32], live: NDArray[np.bool_]
) -> tuple[Moves, NDArray[np.int32]]:
    """Only the live states, in their order; none where the first is not live.

    State 0 is where texts begin and has to stay the first. If it is not live, no text leads to a
    label, and other states do not matter.
    """
    count = len(label)
    number = np.full(count, -1, dtype=np.int32)
    members = np.empty(count, dtype=np.int32)
    kept = 0
    if live[0]:
        for state in range(count):
            if live[state]:
                number[state], members[kept] = kept, state
                kept += 1
    return _those_of(moves, label, members[:kept], number)


@making_kernel
def _merged(
    moves: Moves, label: NDArray[np.int32], block_of: NDArray[np.int32]
) -> tuple[Moves, NDArray[np.int32]]:
    """Return one state for each block; blocks are numbered by their first states.

    Its moves and its label are those of the first state, as equal states have the same labels and
    lead to the same blocks. Returns the arrays passed in if no two states are equal.
    """
    count = len(label)
    number_of = np.full(count, -1, dtype=np.int32)
    members = np.empty(count, dtype=np.int32)
    renamed = np.empty(count, dtype=np.int32)
    blocks = 0
    for state in range(count):
        block = block_of[state]
        if number_of[block] == -1:
            number_of[block], members[blocks] = blocks, state
            blocks += 1
        renamed[state] = number_of[block]
    if blocks == count:
        return moves, label
    return _those_of(moves, label, members[:blocks], renamed)


@making_kernel
def _those_of(
    moves: Moves, label: NDArray[np.int32], members: NDArray[np.int32], renamed: NDArray[np.int32]
) -> tuple[Moves, NDArray[np.int32]]:
    """Return the moves and labels of some states; moves to states that are ``renamed`` -1 drop out.

    ``members`` are these states in their new order; ``renamed`` has the new state by old state.
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
            target = renamed[moves.targets[at]]
            if target != -1:
                classes[top], targets[top] = moves.classes[at], target
                top += 1
    first[count] = top
    return Moves(first, classes[:top], targets[:top]), label[members]


class _Partition(NamedTuple):
    """Blocks of states; see the drawing above.

    All arrays are int32 ``[states]``, and ``_mark`` and ``_split`` change them in place. ``marked``
    is 0 except while the splits by one class are computed.
    """

    order: NDArray[np.int32]
    place: NDArray[np.int32]
    block_of: NDArray[np.int32]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    marked: NDArray[np.int32]


@making_kernel
def _coarsest(into: MovesInto, label: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """Return the block of each state when no splitter is left (Hopcroft).

    A state has at most one move by each class, as the automaton is deterministic. So each state is
    marked at most once for a class of the splitter, which ``_mark`` relies on.
    """
    count = len(label)
    partition, blocks = _by_label(label)
    order, begin, end = partition.order, partition.begin, partition.end
    # At first all blocks are splitters; there are never more blocks than states.
    pending = np.arange(count).astype(np.int32)
    left = blocks
    touched = np.empty(count, dtype=np.int32)
    # The moves into the splitter as lists, one for each class that some of them read. They are
    # recorded before any block is split, as the splitter may split itself.
    head = np.full(width, -1, dtype=np.int32)
    next_ = np.empty(len(into.sources), dtype=np.int32)
    read = np.empty(width, dtype=np.int32)
    while left:
        left -= 1
        splitter = pending[left]
        kinds = 0
        for at in range(begin[splitter], end[splitter]):
            for edge in range(into.first[order[at]], into.first[order[at] + 1]):
                index = into.classes[edge]
                if head[index] == -1:
                    read[kinds] = index
                    kinds += 1
                next_[edge] = head[index]
                head[index] = edge
        # For each class: mark the states that lead into the splitter, then split every block in
        # which only some states are marked.
        for kind in range(kinds):
            hits = 0
            edge = head[read[kind]]
            head[read[kind]] = -1
            while edge != -1:
                block = partition.block_of[into.sources[edge]]
                if partition.marked[block] == 0:
                    touched[hits] = block
                    hits += 1
                _mark(partition, into.sources[edge], block)
                edge = next_[edge]
            for hit in range(hits):
                if _split(partition, touched[hit], blocks):
                    pending[left] = blocks
                    left += 1
                    blocks += 1
    return partition.block_of


@making_kernel
def _by_label(label: NDArray[np.int32]) -> tuple[_Partition, int]:
    """Return the states of each label as a block, and the number of blocks."""
    count = len(label)
    # A stable sort leaves the states of a label ascending, as moves are stored. This is only for
    # speed: any order in a block gives the same result, since ``_merged`` numbers blocks by states.
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
    """Bring a state that leads into the splitter, not yet marked, to the front of its block."""
    order, place = partition.order, partition.place
    here, there = place[state], partition.begin[block] + partition.marked[block]
    other = order[there]
    order[here], order[there] = other, state
    place[other], place[state] = here, there
    partition.marked[block] += 1


@inlined
def _split(partition: _Partition, block: int, fresh: int) -> bool:
    """Make the smaller part of a block the block ``fresh``; False if all states are marked.

    At least one is, and afterwards none is. The new block has to be a splitter in any case: if the
    old one waits to be one, both parts have to be, and if it already was one, the smaller part is
    enough.
    """
    begin, end = partition.begin, partition.end
    cut = begin[block] + partition.marked[block]
    partition.marked[block] = 0
    if cut == end[block]:
        return False
    if cut - begin[block] <= end[block] - cut:
        begin[fresh], end[fresh] = begin[block], cut
        begin[block] = cut
    else:
        begin[fresh], end[fresh] = cut, end[block]
        end[block] = cut
    for at in range(begin[fresh], end[fresh]):
        partition.block_of[partition.order[at]] = fresh
    return True
