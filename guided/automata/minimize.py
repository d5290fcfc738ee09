"""The smallest automaton of a labelled transition table: trimming, then merging equal states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.automata.kernel import making_kernel

__all__ = ["minimal", "moves_of"]


def minimal(
    table: NDArray[np.int32], label: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The table without states that state 0 does not lead to or that lead to no label.

    States of equal residual language, told apart by label, are merged (Hopcroft, 1971; in
    O(moves * log states)); they keep the order of their first members, so state 0 stays in front.
    ``table`` is int32 ``[states, classes]`` and ``label`` int32 ``[states]``, -1 for none in both.
    """
    if not len(label):
        return table, label
    return _minimal(  # type: ignore[no-any-return]
        np.ascontiguousarray(table, dtype=np.int32), np.ascontiguousarray(label, dtype=np.int32)
    )


@making_kernel
def _minimal(table, label):  # type: ignore[no-untyped-def]
    live, live_label = _trimmed(table, label)
    if len(live_label) < 2:
        return live, live_label
    return _merged(live, live_label)


@making_kernel
def _merged(table, label):  # type: ignore[no-untyped-def]
    count = len(label)
    block_of = _refined(table, label)
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
        return table, label
    small = np.empty((blocks, table.shape[1]), dtype=np.int32)
    small_label = np.empty(blocks, dtype=np.int32)
    for block in range(blocks):
        small_label[block] = label[member[block]]
        for index in range(table.shape[1]):
            target = table[member[block], index]
            small[block, index] = -1 if target == -1 else rank[block_of[target]]
    return small, small_label


@making_kernel
def _trimmed(table, label):  # type: ignore[no-untyped-def]
    count, width = table.shape
    found = np.zeros(count, dtype=np.bool_)
    stack = np.empty(count, dtype=np.int32)
    stack[0], top = 0, 1
    found[0] = True
    while top:
        top -= 1
        state = stack[top]
        for index in range(width):
            target = table[state, index]
            if target != -1 and not found[target]:
                found[target] = True
                stack[top] = target
                top += 1
    live = np.zeros(count, dtype=np.bool_)
    for state in range(count):
        if found[state] and label[state] != -1:
            live[state] = True
            stack[top] = state
            top += 1
    if top < found.sum():
        first, sources, _ = _moves_into(table)
        while top:
            top -= 1
            state = stack[top]
            for edge in range(first[state], first[state + 1]):
                source = sources[edge]
                if found[source] and not live[source]:
                    live[source] = True
                    stack[top] = source
                    top += 1
    number = np.full(count, -1, dtype=np.int32)
    kept = 0
    if live[0]:
        for state in range(count):
            if live[state]:
                number[state] = kept
                kept += 1
    if kept == count:
        return table, label
    small = np.empty((kept, width), dtype=np.int32)
    small_label = np.empty(kept, dtype=np.int32)
    for state in range(count):
        if number[state] != -1:
            small_label[number[state]] = label[state]
            for index in range(width):
                target = table[state, index]
                small[number[state], index] = -1 if target == -1 else number[target]
    return small, small_label


@making_kernel
def _moves_into(table):  # type: ignore[no-untyped-def]
    """Sources and classes of the moves into each state: those into ``t`` from ``first[t]`` on."""
    count, width = table.shape
    first = np.zeros(count + 1, dtype=np.int64)
    for state in range(count):
        for index in range(width):
            if table[state, index] != -1:
                first[table[state, index] + 1] += 1
    for state in range(1, count + 1):
        first[state] += first[state - 1]
    place = first[:-1].copy()
    sources = np.empty(first[-1], dtype=np.int32)
    classes = np.empty(first[-1], dtype=np.int32)
    for state in range(count):
        for index in range(width):
            target = table[state, index]
            if target != -1:
                sources[place[target]], classes[place[target]] = state, index
                place[target] += 1
    return first, sources, classes


@making_kernel
def _refined(table, label):  # type: ignore[no-untyped-def]
    """The block of each state in the coarsest stable partition that respects the labels.

    Blocks are slices of ``order``. A move that is missing needs no splitter of its own: states that
    agree on where all other moves lead agree on it too.
    """
    count, width = table.shape
    first, sources, classes = _moves_into(table)
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


@making_kernel
def moves_of(table):  # type: ignore[no-untyped-def]
    """Sources, targets and classes of all moves of a table, int32 ``[3, moves]``."""
    count, width = table.shape
    size = 0
    for state in range(count):
        for index in range(width):
            size += table[state, index] != -1
    moves = np.empty((3, size), dtype=np.int32)
    at = 0
    for state in range(count):
        for index in range(width):
            if table[state, index] != -1:
                moves[0, at], moves[1, at], moves[2, at] = state, table[state, index], index
                at += 1
    return moves
