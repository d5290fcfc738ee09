"""The smallest automaton of labelled moves: trimming, then merging equal states.

States are equal when the same texts lead on from them. A few rounds over all moves tell most of
them apart (Moore, 1956): each state gets a number out of its own and those of the states that it
leads to, so states with different numbers are different. That states with equal numbers are equal
is looked at, and where it is not so, or rounds go on telling more, blocks are split one by another.

Moves are held by state: where those of each begin, the class that each reads, and where it leads;
int32. Tables have a cell for every class, and most of theirs are empty.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.equal_columns import column_groups
from guided.regular.moves import columns_of, moves_in
from guided.runtime.kernel import making_kernel

__all__ = ["minimal", "minimal_columns", "smallest"]

_ROUNDS: Final = 12
_SWEEPS: Final = 4
_ODD: Final = 0x9E3779B97F4A7C15
_ALSO_ODD: Final = 0xBF58476D1CE4E5B9


def minimal(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The table without states that state 0 does not lead to or that lead to no label.

    States of equal residual language, told apart by label, are merged (Hopcroft, 1971; in
    O(cells + moves * log states)); they keep the order of their first members, so state 0 stays in
    front.
    ``table`` is int32 ``[states, classes]`` and ``label`` int32 ``[states]``, -1 for none in both.
    """
    if not len(label):
        return table, label
    return _minimal(  # type: ignore[no-any-return]
        np.ascontiguousarray(table, dtype=np.int32), np.ascontiguousarray(label, dtype=np.int32)
    )


@making_kernel
def _minimal(table, label):  # type: ignore[no-untyped-def]
    width = table.shape[1]
    moves, label = smallest(moves_in(table), label, width, False)
    return columns_of(moves, np.arange(width).astype(np.int32), width), label


@making_kernel
def minimal_columns(table, label):  # type: ignore[no-untyped-def]
    """``minimal``, with each of the columns that no state tells apart once, and none of -1 alone.

    Returns the group of each column, too, int32 ``[columns]``, -1 for none. In one kernel, for
    expressions are made of many small automata.
    """
    moves, label = smallest(moves_in(table), label, table.shape[1], False)
    group, groups = column_groups(moves, table.shape[1])
    return columns_of(moves, group, groups), label, group


@making_kernel
def smallest(moves, label, width, all_found):  # type: ignore[no-untyped-def]
    """``minimal`` of moves, which read classes below ``width``.

    ``all_found`` says that state 0 is known to lead to all the others.
    """
    if not len(label):
        return moves, label
    live = _live(moves, label, all_found)
    if not live.all():
        moves, label = _only(moves, label, live)
    if len(label) < 2:
        return moves, label
    return _merged(moves, label, width)


@making_kernel
def _merged(moves, label, width):  # type: ignore[no-untyped-def]
    count = len(label)
    block_of, blocks = _seen_ahead(_leads(moves, width), label)
    if blocks == count:
        return moves, label
    if not _are_equal(moves, label, block_of, width):
        block_of = _refined(moves, label, width)
    # Number the blocks by their first state, so that the start keeps number 0.
    rank = np.full(count, -1, dtype=np.int32)
    member = np.empty(count, dtype=np.int32)
    blocks = 0
    for state in range(count):
        if rank[block_of[state]] == -1:
            rank[block_of[state]] = blocks
            member[blocks] = state
            blocks += 1
    if blocks == count:
        return moves, label
    renamed = np.empty(count, dtype=np.int32)
    for state in range(count):
        renamed[state] = rank[block_of[state]]
    return _those_of(moves, label, member[:blocks], renamed)


@making_kernel
def _those_of(moves, label, members, renamed):  # type: ignore[no-untyped-def]
    """The moves and labels of some states; those to states that are ``renamed`` -1 drop out."""
    first, classes, targets = moves
    count = len(members)
    small_first = np.empty(count + 1, dtype=np.int32)
    small_label = np.empty(count, dtype=np.int32)
    size = 0
    for state in members:
        size += first[state + 1] - first[state]
    small_classes = np.empty(size, dtype=np.int32)
    small_targets = np.empty(size, dtype=np.int32)
    top = 0
    for number in range(count):
        small_first[number] = top
        small_label[number] = label[members[number]]
        for at in range(first[members[number]], first[members[number] + 1]):
            target = renamed[targets[at]]
            if target != -1:
                small_classes[top], small_targets[top] = classes[at], target
                top += 1
    small_first[count] = top
    return (small_first, small_classes[:top], small_targets[:top]), small_label


@making_kernel
def _leads(moves, width):  # type: ignore[no-untyped-def]
    """Where each state leads, from ``first[state]`` on, each with what stands for the moves there.

    That is the sum of a number for each class: moves side by side to the same state are one.
    """
    move_first, classes, move_to = moves
    count = len(move_first) - 1
    mixed = np.uint64(_ALSO_ODD)
    factor = np.empty(width, dtype=np.uint64)
    for index in range(width):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(_ODD)
        factor[index] = mixed | np.uint64(1)
    first = np.empty(count + 1, dtype=np.int32)
    targets = np.empty(len(move_to), dtype=np.int32)
    factors = np.empty(len(move_to), dtype=np.uint64)
    top = 0
    for state in range(count):
        first[state] = top
        before = -1
        for at in range(move_first[state], move_first[state + 1]):
            target = move_to[at]
            if target == before:
                factors[top - 1] += factor[classes[at]]
            else:
                targets[top], factors[top] = target, factor[classes[at]]
                top += 1
                before = target
    first[count] = top
    return first, targets[:top], factors[:top]


@making_kernel
def _seen_ahead(leads, label):  # type: ignore[no-untyped-def]
    """The block of each state by what a few moves ahead tell, and the number of blocks.

    A block is named by one of its states. States of different blocks are different.
    """
    count = len(label)
    first, targets, factors = leads
    numbers = (label.astype(np.uint64) + np.uint64(2)) * np.uint64(_ODD)
    ahead = np.empty_like(numbers)
    block_of = np.empty(count, dtype=np.int32)
    size = 16
    while size < 2 * count:
        size *= 2
    slots = np.empty(size, dtype=np.int32)
    several = np.empty(count, dtype=np.bool_)
    # A state that is alone in its block keeps its number, which tells it apart for good.
    left = np.arange(count)
    waiting, blocks = count, 0
    for _ in range(_ROUNDS):
        for place in range(waiting):
            state = left[place]
            number = numbers[state]
            for at in range(first[state], first[state + 1]):
                number += numbers[targets[at]] * factors[at]
            number = (number ^ (number >> np.uint64(31))) * np.uint64(_ALSO_ODD)
            ahead[state] = number ^ (number >> np.uint64(29))
        before, blocks = blocks, count - waiting
        slots[:] = -1
        for place in range(waiting):
            state = left[place]
            numbers[state] = ahead[state]
            slot = (numbers[state] >> np.uint64(8)) & np.uint64(size - 1)
            while slots[slot] != -1 and numbers[slots[slot]] != numbers[state]:
                slot = (slot + np.uint64(1)) & np.uint64(size - 1)
            member = slots[slot]
            if member == -1:
                slots[slot] = block_of[state] = state
                several[state] = False
                blocks += 1
            else:
                block_of[state] = member
                several[member] = True
        if blocks in (before, count):
            break
        kept = 0
        for place in range(waiting):
            if several[block_of[left[place]]]:
                left[kept] = left[place]
                kept += 1
        waiting = kept
    return block_of, blocks


@making_kernel
def _are_equal(moves, label, block_of, width):  # type: ignore[no-untyped-def]
    """Whether all states of a block lead to the same blocks, and so are equal."""
    first, classes, targets = moves
    count = len(label)
    member = np.full(count, -1, dtype=np.int32)
    # What the first state of a block leads to by each class, and for which other it was noted.
    leads_to = np.empty(width, dtype=np.int32)
    noted_for = np.full(width, -1, dtype=np.int32)
    for state in range(count):
        other = member[block_of[state]]
        if other == -1:
            member[block_of[state]] = state
            continue
        if (
            label[state] != label[other]
            or first[state + 1] - first[state] != first[other + 1] - first[other]
        ):
            return False
        for at in range(first[other], first[other + 1]):
            leads_to[classes[at]], noted_for[classes[at]] = block_of[targets[at]], state
        for at in range(first[state], first[state + 1]):
            if noted_for[classes[at]] != state or leads_to[classes[at]] != block_of[targets[at]]:
                return False
    return True


@making_kernel
def _live(moves, label, all_found):  # type: ignore[no-untyped-def]
    """Whether state 0 leads to each state, and it to a label."""
    first, _, targets = moves
    count = len(label)
    found = np.full(count, all_found)
    if not all_found:
        stack = np.empty(count, dtype=np.int32)
        stack[0], top = 0, 1
        found[0] = True
        while top:
            top -= 1
            state = stack[top]
            for at in range(first[state], first[state + 1]):
                target = targets[at]
                if not found[target]:
                    found[target] = True
                    stack[top] = target
                    top += 1
    live = found & (label != -1)
    missing = found.sum() - live.sum()
    # Mostly states lead on to later ones.
    for _ in range(_SWEEPS):
        before = missing
        for state in range(count - 1, -1, -1):
            if found[state] and not live[state]:
                for at in range(first[state], first[state + 1]):
                    if live[targets[at]]:
                        live[state] = True
                        missing -= 1
                        break
        if missing in (0, before):
            return live
    return _live_behind(moves, found, live)


@making_kernel
def _live_behind(moves, found, live):  # type: ignore[no-untyped-def]
    """All of those found that lead to a live state, by the moves into each."""
    into, sources, _ = _moves_into(moves)
    stack = np.empty(len(found), dtype=np.int32)
    top = 0
    for state in range(len(found)):
        if live[state]:
            stack[top] = state
            top += 1
    while top:
        top -= 1
        state = stack[top]
        for at in range(into[state], into[state + 1]):
            source = sources[at]
            if found[source] and not live[source]:
                live[source] = True
                stack[top] = source
                top += 1
    return live


@making_kernel
def _only(moves, label, live):  # type: ignore[no-untyped-def]
    """The live states alone; none where the first is not."""
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
def _moves_into(moves):  # type: ignore[no-untyped-def]
    """Sources and classes of the moves into each state: those into ``t`` from ``into[t]`` on."""
    first, classes, targets = moves
    count = len(first) - 1
    into = np.zeros(count + 1, dtype=np.int64)
    for target in targets:
        into[target + 1] += 1
    for state in range(count):
        into[state + 1] += into[state]
    place = into[:-1].copy()
    sources = np.empty(len(targets), dtype=np.int32)
    read = np.empty(len(targets), dtype=np.int32)
    for state in range(count):
        for at in range(first[state], first[state + 1]):
            target = targets[at]
            sources[place[target]], read[place[target]] = state, classes[at]
            place[target] += 1
    return into, sources, read


@making_kernel
def _refined(moves, label, width):  # type: ignore[no-untyped-def]
    """The block of each state in the coarsest stable partition that respects the labels.

    Blocks are slices of ``order``. A move that is missing needs no splitter of its own: states that
    agree on where all other moves lead agree on it too.
    """
    count = len(label)
    first, sources, classes = _moves_into(moves)
    order = np.argsort(label, kind="mergesort").astype(np.int32)
    place = np.empty(count, dtype=np.int32)
    block_of = np.empty(count, dtype=np.int32)
    begin = np.empty(count, dtype=np.int32)
    end = np.empty(count, dtype=np.int32)
    marked = np.zeros(count, dtype=np.int32)
    blocks = 0
    for at in range(count):
        state = order[at]
        if at == 0 or label[state] != label[order[at - 1]]:
            begin[blocks] = at
            blocks += 1
        place[state] = at
        block_of[state] = blocks - 1
        end[blocks - 1] = at + 1
    pending = np.empty(count, dtype=np.int32)
    for block in range(blocks):
        pending[block] = block
    left = blocks
    touched = np.empty(count, dtype=np.int32)
    # Moves into the splitter as lists, one for each class that some of them read.
    head = np.full(width, -1, dtype=np.int32)
    behind = np.empty(len(sources), dtype=np.int32)
    read = np.empty(width, dtype=np.int32)
    while left:
        left -= 1
        block = pending[left]
        kinds = 0
        for at in range(begin[block], end[block]):
            for edge in range(first[order[at]], first[order[at] + 1]):
                index = classes[edge]
                if head[index] == -1:
                    read[kinds] = index
                    kinds += 1
                behind[edge] = head[index]
                head[index] = edge
        for kind in range(kinds):
            hits = 0
            edge = head[read[kind]]
            head[read[kind]] = -1
            while edge != -1:
                state = sources[edge]
                edge = behind[edge]
                of = block_of[state]
                if marked[of] == 0:
                    touched[hits] = of
                    hits += 1
                # Marked states move to the front of their block.
                here, there = place[state], begin[of] + marked[of]
                other = order[there]
                order[here], order[there] = other, state
                place[other], place[state] = here, there
                marked[of] += 1
            for hit in range(hits):
                of = touched[hit]
                split = begin[of] + marked[of]
                marked[of] = 0
                if split == end[of]:
                    continue
                # The smaller part becomes the new block, and is a splitter in any case.
                fresh = blocks
                blocks += 1
                if split - begin[of] <= end[of] - split:
                    begin[fresh], end[fresh] = begin[of], split
                    begin[of] = split
                else:
                    begin[fresh], end[fresh] = split, end[of]
                    end[of] = split
                for at in range(begin[fresh], end[fresh]):
                    block_of[order[at]] = fresh
                pending[left] = fresh
                left += 1
    return block_of
