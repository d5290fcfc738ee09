"""Shortest ways to the ends of rules (Knuth, Information Processing Letters 6(1), 1977)."""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import making_kernel

__all__ = ["LONGEST", "shortest_ways"]

LONGEST: Final = 2**60
"""Ways that are longer count as this long: calls can double a length at every step."""


def shortest_ways(
    starts: NDArray[np.int64],
    edges: NDArray[np.int32],
    calls: NDArray[np.int32],
    known: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each state the bytes to the end of its rule, int64 ``[states]``, and the way there.

    ``edges`` is int32 ``[edges, 3]``: source, byte and target; ``calls`` is int32 ``[calls, 3]``:
    source, rule and target; ``known`` has the bytes of states that need no move, 0 at an end, and
    -1 for all others. The way is its first move, int32 ``[states, 3]``: byte, called rule and
    target, -1 for what it has not.
    """
    left, ways = _shortest_ways(starts, edges, calls, known)
    assert (left >= 0).all(), "a state leads to no end"
    return left, ways


@making_kernel
def _grouped(count, keys):  # type: ignore[no-untyped-def]
    """Places by key: those of ``k`` from ``first[k]`` on."""
    first = np.zeros(count + 1, dtype=np.int64)
    for key in keys:
        first[key + 1] += 1
    for key in range(count):
        first[key + 1] += first[key]
    at = first[:-1].copy()
    places = np.empty(len(keys), dtype=np.int64)
    for place in range(len(keys)):
        places[at[keys[place]]] = place
        at[keys[place]] += 1
    return first, places


@making_kernel
def _shortest_ways(starts, edges, calls, known):  # type: ignore[no-untyped-def]
    count = len(known)
    edges_first, edges_into = _grouped(count, edges[:, 2])
    before_first, calls_before = _grouped(count, calls[:, 2])
    in_first, calls_of = _grouped(len(starts), calls[:, 1])
    rule_at = np.full(count, -1, dtype=np.int64)
    for rule in range(len(starts)):
        rule_at[starts[rule]] = rule
    left = np.full(count, -1, dtype=np.int64)
    ways = np.full((count, 3), -1, dtype=np.int32)
    # Cost, a number for ties, and the move: state, byte, rule, target. The first tells the type.
    heap: list[Any] = [(np.int64(0), -1, -1, -1, -1, -1)]
    heap.pop()
    # Bytes cost one: behind costs that grow they grow, and need no heap. Cost, tie, state and edge.
    queue = np.empty((count + len(edges), 4), dtype=np.int64)
    head, tail, ties = 0, 0, 0
    for state in range(count):
        if known[state] == 0:
            queue[tail, 0], queue[tail, 1], queue[tail, 2], queue[tail, 3] = 0, ties, state, -1
            tail += 1
        elif known[state] != -1:
            heapq.heappush(heap, (known[state], ties, state, -1, -1, -1))
        ties += 1
    while head < tail or len(heap):
        if len(heap) and (
            head == tail or (heap[0][0], heap[0][1]) < (queue[head, 0], queue[head, 1])
        ):
            cost, _, state, byte, rule, target = heapq.heappop(heap)
        else:
            cost, state, edge = int(queue[head, 0]), int(queue[head, 2]), int(queue[head, 3])
            byte, rule, target = -1, -1, -1
            if edge != -1:
                byte, target = int(edges[edge, 1]), int(edges[edge, 2])
            head += 1
        if left[state] != -1:
            continue
        left[state] = cost
        ways[state, 0], ways[state, 1], ways[state, 2] = byte, rule, target
        for at in range(edges_first[state], edges_first[state + 1]):
            edge = edges_into[at]
            if left[edges[edge, 0]] == -1:
                queue[tail, 0], queue[tail, 1] = min(cost + 1, LONGEST), ties
                queue[tail, 2], queue[tail, 3] = edges[edge, 0], edge
                tail += 1
                ties += 1
        for at in range(before_first[state], before_first[state + 1]):
            call = calls[calls_before[at]]
            inside = left[starts[call[1]]]
            if left[call[0]] == -1 and inside != -1:
                through = min(cost + inside, LONGEST)
                heapq.heappush(
                    heap, (through, ties, np.int64(call[0]), -1, np.int64(call[1]), state)
                )
                ties += 1
        callee = rule_at[state]
        if callee != -1:
            for at in range(in_first[callee], in_first[callee + 1]):
                call = calls[calls_of[at]]
                behind = left[call[2]]
                if left[call[0]] == -1 and behind != -1:
                    through = min(cost + behind, LONGEST)
                    heapq.heappush(
                        heap,
                        (through, ties, np.int64(call[0]), -1, callee, np.int64(call[2])),
                    )
                    ties += 1
    return left, ways
