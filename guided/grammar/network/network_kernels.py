"""Compiled code that makes the tables of a network: its moves, and shortest ways to rules' ends.

::

    moves   int32 [states, classes]    the state that the bytes of a class lead to, -1 for none
    edges   int32 [edges, 3]           source, byte, target     one byte for each pair of states
    calls   int32 [calls, 3]           source, rule, target     target: where the call returns to
    ways    int32 [states, 3]          byte, rule, target       the first move of a shortest way,
                                                                -1 for what it has not
"""

from __future__ import annotations

import heapq
import string
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import making_kernel

__all__ = ["LONGEST", "shortest_ways", "write_moves"]

Ints: TypeAlias = NDArray[np.int32]

_ALPHANUMERIC: Final = (string.digits + string.ascii_letters).encode()
_READABLE: Final = np.array(
    sorted(range(256), key=lambda byte: (byte not in _ALPHANUMERIC, not 32 <= byte < 127, byte))
)
"""All bytes, in the order in which a shortest completion prefers them."""
LONGEST: Final = 2**60
"""Longer ways count as this long: calls can double a length at every step."""
_SOURCE: Final = 0
_BYTE: Final = 1
_RULE: Final = 1
_TARGET: Final = 2
"""Columns of edges and calls."""


def write_moves(
    table: NDArray[np.int32],
    columns: NDArray[np.int32],
    first: int,
    byte_class: NDArray[np.uint8],
    moves: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Write a rule's moves, from ``first`` on, into those of all states.

    ``table`` is int32 ``[states, columns]``. ``columns`` has by byte its column there, -1 for none,
    the same for all bytes of a class. ``moves`` is int32 ``[states of all rules, classes]``, with
    -1 for nowhere; ``byte_class``, uint8 ``[256]``, has by byte its class there. Returns each state
    with the most readable byte for each state that it leads to: source, byte and target, int32
    ``[edges, 3]``.
    """
    edges: NDArray[np.int32] = _write_moves(table, columns, first, byte_class, moves, _READABLE)
    return edges


@making_kernel
def _write_moves(
    table: Ints,
    columns: Ints,
    first: int,
    byte_class: NDArray[np.uint8],
    moves: Ints,
    order: NDArray[np.int64],
) -> Ints:
    """``write_moves``; ``order`` has all bytes, the most readable first."""
    count, width = table.shape
    # The most readable byte of each class that the rule's own automaton distinguishes, and the
    # class; the first ``classes`` lines, the most readable first.
    known = np.zeros(width, dtype=np.bool_)
    chosen = np.empty((width, 2), dtype=np.int32)
    classes = 0
    for byte in order:
        if columns[byte] != -1 and not known[columns[byte]]:
            known[columns[byte]] = True
            chosen[classes, 0], chosen[classes, 1] = byte, columns[byte]
            classes += 1
    # By target the last source that has an edge to it: the first byte that leads there is kept.
    seen = np.full(count, -1, dtype=np.int32)
    edges = np.empty((count * min(classes, count), 3), dtype=np.int32)
    size = 0
    # By class of the network the rule's column, the same for all bytes of the class.
    column_of = np.full(moves.shape[1], -1, dtype=np.int32)
    for byte in range(256):
        column_of[byte_class[byte]] = columns[byte]
    begin = np.int32(first)
    for source in range(count):
        read, written = table[source], moves[first + source]
        for number in range(len(column_of)):
            column = column_of[number]
            # Unsigned, or numba would check for each column whether it counts from the end.
            target = read[np.uint32(max(column, 0))]
            written[number] = -1 if column == -1 or target == -1 else begin + target
        for number in range(classes):
            target = table[source, chosen[number, 1]]
            if target != -1 and seen[target] != source:
                seen[target] = source
                edges[size, _SOURCE], edges[size, _BYTE] = first + source, chosen[number, 0]
                edges[size, _TARGET] = first + target
                size += 1
    return edges[:size].copy()


def shortest_ways(
    starts: NDArray[np.int64],
    edges: NDArray[np.int32],
    calls: NDArray[np.int32],
    known: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return by state the bytes to the end of its rule, int64 ``[states]``, and ``ways``.

    ``starts`` has the first state of each rule. ``known`` has the bytes of states that need no
    move, 0 at an end, and -1 for all others. This is Dijkstra's algorithm, backwards from the ends,
    in the form that Knuth gave it for grammars (Information Processing Letters 6(1), 1977): a call
    costs what its rule costs from its start. Longer ways count as LONGEST. In a network an end is
    reachable from every state, so the assertion holds.
    """
    left, ways = _shortest_ways(starts, edges, calls, known)
    assert (left >= 0).all(), "a state leads to no end"
    return left, ways


@making_kernel
def _grouped(count: int, keys: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of each key among ``keys`` (a counting sort): ``k``'s from ``first[k]`` on.

    Keys are numbers from 0 on, less than ``count``; returns ``first`` and the places. Those of a
    key ascend, which decides between moves of equal cost.
    """
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
def _push_call(heap: list[Any], cost: int, tie: int, call: Ints) -> None:
    """Put the state that a call is made in into the heap of ``_shortest_ways``.

    ``cost`` is that of the whole way from it, ``tie`` says how early it was found: the first of
    equals wins.
    """
    source, rule, target = call[_SOURCE], call[_RULE], call[_TARGET]
    through = min(cost, LONGEST)
    heapq.heappush(heap, (through, tie, np.int64(source), -1, np.int64(rule), np.int64(target)))


@making_kernel
def _shortest_ways(
    starts: NDArray[np.int64], edges: Ints, calls: Ints, known: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Ints]:
    """Compute ``shortest_ways``: states are settled in the order of their costs, from the ends on.

    A call costs what its rule costs plus what the state after it costs. It is put into the heap
    when the second of these two is settled, whichever that is.
    """
    count = len(known)
    # Edges and calls by what they lead to, as the search goes backwards; calls also by rule.
    edges_first, edges_into = _grouped(count, edges[:, _TARGET])
    before_first, calls_before = _grouped(count, calls[:, _TARGET])
    in_first, calls_of = _grouped(len(starts), calls[:, _RULE])
    # By state the rule that begins there, -1 for none.
    rule_at = np.full(count, -1, dtype=np.int64)
    for rule in range(len(starts)):
        rule_at[starts[rule]] = rule
    left = np.full(count, -1, dtype=np.int64)
    ways = np.full((count, 3), -1, dtype=np.int32)
    # Cost, a number for ties, and the move: state, byte, rule, target. The order is only that of
    # cost and tie, as no two ties are equal. The first entry shows numba the type.
    heap: list[Any] = [(np.int64(0), -1, -1, -1, -1, -1)]
    heap.pop()
    # A byte costs one, and states are settled in the order of their costs: so what is reached by a
    # byte already comes in that order, and a queue suffices instead of a heap. Cost, tie, state,
    # edge; -1 for the edge of an end. There is room, as each state and each edge comes at most
    # once.
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
                byte, target = int(edges[edge, _BYTE]), int(edges[edge, _TARGET])
            head += 1
        if left[state] != -1:
            # It was reached before, in fewer bytes or as many.
            continue
        left[state] = cost
        ways[state, 0], ways[state, 1], ways[state, 2] = byte, rule, target
        for at in range(edges_first[state], edges_first[state + 1]):
            edge = edges_into[at]
            if left[edges[edge, _SOURCE]] == -1:
                queue[tail, 0], queue[tail, 1] = min(cost + 1, LONGEST), ties
                queue[tail, 2], queue[tail, 3] = edges[edge, _SOURCE], edge
                tail += 1
                ties += 1
        # The state that calls return to: they are known where their rules are.
        for at in range(before_first[state], before_first[state + 1]):
            call = calls[calls_before[at]]
            inside = left[starts[call[_RULE]]]
            if left[call[_SOURCE]] == -1 and inside != -1:
                _push_call(heap, cost + inside, ties, call)
                ties += 1
        # The start of a rule: calls whose ways back are known become known now too.
        callee = rule_at[state]
        if callee != -1:
            for at in range(in_first[callee], in_first[callee + 1]):
                call = calls[calls_of[at]]
                after = left[call[_TARGET]]
                if left[call[_SOURCE]] == -1 and after != -1:
                    _push_call(heap, cost + after, ties, call)
                    ties += 1
    return left, ways
