"""Shortest ways to the ends of rules (Knuth, Information Processing Letters 6(1), 1977)."""

from __future__ import annotations

import heapq
import string
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["LONGEST", "shortest_ways"]

LONGEST: Final = 2**60
"""Ways that are longer count as this long: calls can double a length at every step."""

_ALPHANUMERIC = (string.digits + string.ascii_letters).encode()
_READABLE = np.array(
    sorted(range(256), key=lambda byte: (byte not in _ALPHANUMERIC, not 32 <= byte < 127, byte))
)
"""All bytes, in the order in which a way out prefers them."""


def shortest_ways(
    starts: NDArray[np.int64],
    moves: NDArray[np.int32],
    calls: NDArray[np.int32],
    known: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each state the bytes to the end of its rule, int64 ``[states]``, and the way there.

    ``calls`` is int32 ``[calls, 3]``: source, rule and target; ``known`` has the bytes of states
    that need no move, 0 at an end, and -1 for all others. The way is its first move, int32
    ``[states, 3]``: byte, called rule and target, -1 for what it has not.
    """
    left, ways = _shortest_ways(starts, moves, calls, known, _READABLE)
    assert (left >= 0).all(), "a state leads to no end"
    return left, ways


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _byte_edges(moves, order):  # type: ignore[no-untyped-def]
    """Each state with one byte for each state it leads to: source, byte and target."""
    count = len(moves)
    seen = np.full(count, -1, dtype=np.int64)
    edges = np.empty((max(4 * count, 16), 3), dtype=np.int32)
    size = 0
    for source in range(count):
        for byte in order:
            target = moves[source, byte]
            if target == -1 or seen[target] == source:
                continue
            seen[target] = source
            if size == len(edges):
                longer = np.empty((2 * size, 3), dtype=np.int32)
                longer[:size] = edges
                edges = longer
            edges[size, 0], edges[size, 1], edges[size, 2] = source, byte, target
            size += 1
    return edges[:size]


@njit(cache=True, nogil=True)
def _shortest_ways(starts, moves, calls, known, order):  # type: ignore[no-untyped-def]
    count = len(known)
    edges = _byte_edges(moves, order)
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
    ties = 0
    for state in range(count):
        if known[state] != -1:
            heapq.heappush(heap, (known[state], ties, state, -1, -1, -1))
            ties += 1
    while len(heap):
        cost, _, state, byte, rule, target = heapq.heappop(heap)
        if left[state] != -1:
            continue
        left[state] = cost
        ways[state, 0], ways[state, 1], ways[state, 2] = byte, rule, target
        for at in range(edges_first[state], edges_first[state + 1]):
            edge = edges[edges_into[at]]
            if left[edge[0]] == -1:
                through = min(cost + 1, LONGEST)
                heapq.heappush(
                    heap, (through, ties, np.int64(edge[0]), np.int64(edge[1]), -1, state)
                )
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
