"""Shortest ways to an end inside an automaton (Dijkstra, Numerische Mathematik 1, 1959)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa
from guided.automata.dfa import DEAD

__all__ = ["STOP", "shortest_ways"]

STOP = -1
"""In place of a byte: the shortest way ends here."""


def shortest_ways(
    dfa: ByteDfa, costs: Mapping[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """For each state the bytes still to come, and the first of them or STOP.

    To accept as label ``l`` costs ``costs[l]`` further bytes; a label that is not listed is no end.
    Returns int64 ``[states]`` and int16 ``[states]``.
    """
    count = len(dfa)
    left = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
    way = np.full(count, STOP, dtype=np.int16)
    first_byte = np.array(
        [int(np.argmax(dfa.byte_class == c)) for c in range(dfa.next.shape[1])], dtype=np.int16
    )
    used = np.bincount(dfa.byte_class, minlength=dfa.next.shape[1]) > 0
    sources, classes = np.nonzero((dfa.next != DEAD) & used[None])
    targets = dfa.next[sources, classes]
    order = np.argsort(targets, kind="stable")
    sources, classes = sources[order].tolist(), classes[order].tolist()
    first = np.searchsorted(targets[order], np.arange(count + 1)).tolist()
    heap = [
        (costs[label], state, STOP)
        for state, label in enumerate(dfa.label.tolist())
        if label in costs
    ]
    heapq.heapify(heap)
    done = np.zeros(count, dtype=np.bool_)
    while heap:
        cost, state, byte = heapq.heappop(heap)
        if done[state]:
            continue
        done[state] = True
        left[state], way[state] = cost, byte
        for edge in range(first[state], first[state + 1]):
            if not done[sources[edge]]:
                heapq.heappush(heap, (cost + 1, sources[edge], int(first_byte[classes[edge]])))
    return left, way
