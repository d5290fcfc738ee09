"""Shortest ways to an end inside an automaton over bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa
from guided.automata.kernel import making_kernel
from guided.automata.reachability import reverse_moves

__all__ = ["STOP", "fewer_code_points", "shortest_ways"]

STOP: Final = -1
"""In place of a byte: the shortest way ends here."""


def shortest_ways(
    dfa: ByteDfa, costs: Mapping[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """For each state the bytes still to come, and the first of them or STOP.

    To accept as label ``l`` costs ``costs[l]`` further bytes; a label that is not listed is no end.
    Returns int64 ``[states]`` and int16 ``[states]``. Breadth first from the ends, each of which
    joins in when the front has come as far as it costs.
    """
    first, sources, classes = reverse_moves(dfa.next)
    left = np.full(len(dfa), np.iinfo(np.int64).max, dtype=np.int64)
    way = np.full(len(dfa), STOP, dtype=np.int16)
    ends = [state for state, label in enumerate(dfa.label.tolist()) if label in costs]
    ends.sort(key=lambda state: costs[int(dfa.label[state])])
    end_costs = [costs[int(dfa.label[state])] for state in ends]
    # A class without bytes has no move in a trimmed automaton that anything could take.
    byte_of_class = np.full(dfa.next.shape[1], STOP, dtype=np.int16)
    byte_of_class[dfa.byte_class[::-1]] = np.arange(255, -1, -1)
    _flood(
        first,
        sources,
        byte_of_class[classes],
        np.array(ends, dtype=np.int64),
        np.array(end_costs, dtype=np.int64),
        left,
        way,
    )
    return left, way


@making_kernel
def _flood(first, sources, bytes_, ends, end_costs, left, way):  # type: ignore[no-untyped-def]
    count = len(left)
    queue = np.empty(count, dtype=np.int64)
    head, tail, joined = 0, 0, 0
    while head < tail or joined < len(ends):
        if joined < len(ends) and (head == tail or end_costs[joined] <= left[queue[head]]):
            state = ends[joined]
            if end_costs[joined] >= left[state]:
                joined += 1
                continue
            left[state] = end_costs[joined]
            way[state] = STOP
            joined += 1
        else:
            state = queue[head]
            head += 1
        for edge in range(first[state], first[state + 1]):
            source = sources[edge]
            if bytes_[edge] != STOP and left[source] > left[state] + 1:
                left[source] = left[state] + 1
                way[source] = bytes_[edge]
                queue[tail] = source
                tail += 1


@making_kernel
def fewer_code_points(table, between, need):  # type: ignore[no-untyped-def]
    """Lower ``need``, the code points from each state to an end, by what its moves lead to.

    int32 ``[states]``; a byte completes one where it leads to one of the first ``between`` states.
    Says whether anything changed. Later states come first, as most moves lead to them.
    """
    changed = False
    for state in range(len(table) - 1, -1, -1):
        for target in table[state]:
            if target >= 0:
                through = need[target] + (1 if target < between else 0)
                if through < need[state]:
                    need[state] = through
                    changed = True
    return changed
