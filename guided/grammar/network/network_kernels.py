"""Compiled code for the tables of a network: its moves, and shortest paths to the ends of rules.

::

    moves        int32 [states, classes]   the state that the bytes of a class lead to, -1 for none
    edges        int32 [edges, 3]          source, byte, target: one byte for each pair of states
    calls        int32 [calls, 3]          source, rule, target: the state that the call returns to
    first_moves  int32 [states, 3]         byte, rule, target of the first move of a shortest path,
                                           -1 for what does not apply
"""

from __future__ import annotations

import heapq
import string
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import group_by_key
from guided.runtime.kernel import allocating_kernel

__all__ = ["MAX_DISTANCE", "shortest_moves", "write_moves"]

Ints: TypeAlias = NDArray[np.int32]

_ALPHANUMERIC: Final = (string.digits + string.ascii_letters).encode()
_READABLE: Final = np.array(
    sorted(range(256), key=lambda byte: (byte not in _ALPHANUMERIC, not 32 <= byte < 127, byte))
)
"""All bytes, in the order in which a shortest completion prefers them."""
MAX_DISTANCE: Final = 2**60
"""Longer distances count as this: each call may double the length of a text."""
_SOURCE: Final = 0
_BYTE: Final = 1
_RULE: Final = 1
_TARGET: Final = 2
"""Columns of edges and calls."""


@allocating_kernel
def write_moves(
    table: Ints, columns: Ints, first: int, byte_class: NDArray[np.uint8], moves: Ints
) -> Ints:
    """Write the moves of a rule, whose first state is ``first``, into ``moves``; return its edges.

    ``table`` is the rule's own table, int32 ``[states, columns]``. ``columns`` has by byte its
    column, -1 for none, the same for all bytes of a class. ``moves`` is int32 ``[states of all
    rules, classes]``, -1 for none; ``byte_class``, uint8 ``[256]``, has by byte its class there.
    The result is int32 ``[edges, 3]``: source, byte and target, for each pair of states the most
    readable byte.
    """
    count, width = table.shape
    # The most readable byte of each class that the rule's own automaton distinguishes, and the
    # class; the first ``classes`` lines, the most readable first.
    has_byte = np.zeros(width, dtype=np.bool_)
    readable = np.empty((width, 2), dtype=np.int32)
    classes = 0
    for byte in _READABLE:
        if columns[byte] != -1 and not has_byte[columns[byte]]:
            has_byte[columns[byte]] = True
            readable[classes, 0], readable[classes, 1] = byte, columns[byte]
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
        own_row, row = table[source], moves[first + source]
        for number in range(len(column_of)):
            column = column_of[number]
            # Unsigned, or numba would check for each column whether it counts from the end.
            target = own_row[np.uint32(max(column, 0))]
            row[number] = -1 if column == -1 or target == -1 else begin + target
        for number in range(classes):
            target = table[source, readable[number, 1]]
            if target != -1 and seen[target] != source:
                seen[target] = source
                edges[size, _SOURCE], edges[size, _BYTE] = first + source, readable[number, 0]
                edges[size, _TARGET] = first + target
                size += 1
    return edges[:size].copy()


@allocating_kernel
def _push_call(heap: list[Any], cost: int, tie: int, call: Ints) -> None:
    """Push the state in which a call is made on the heap of ``shortest_moves``.

    ``cost`` is that of the path that begins with the call. ``tie`` orders entries of equal cost:
    the first one found wins.
    """
    source, rule, target = call[_SOURCE], call[_RULE], call[_TARGET]
    through = min(cost, MAX_DISTANCE)
    heapq.heappush(heap, (through, tie, np.int64(source), -1, np.int64(rule), np.int64(target)))


@allocating_kernel
def shortest_moves(
    starts: NDArray[np.int64], edges: Ints, calls: Ints, known_distance: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Ints]:
    """Return by state the least number of bytes to the end of its rule, and ``first_moves``.

    The distances are int64 ``[states]``, at most MAX_DISTANCE, and -1 where no end is reachable,
    which is nowhere in a network. ``starts`` has the first state of each rule. ``known_distance``
    has the distance of states that need no move, 0 at an end, and -1 for all others.

    This is Dijkstra's algorithm, backwards from the ends, as generalised to grammars by Knuth
    (Information Processing Letters 6(1), 1977): states are settled in the order of their distances.
    A call costs the distance of its rule plus that of the state after it. It is pushed when the
    later of these two is settled.
    """
    count = len(known_distance)
    # Edges and calls by target, as the search goes backwards; calls also by callee. Those of a key
    # ascend, which breaks ties between moves of equal cost.
    edges_first, edges_into = group_by_key(count, edges[:, _TARGET])
    before_first, calls_before = group_by_key(count, calls[:, _TARGET])
    in_first, calls_of = group_by_key(len(starts), calls[:, _RULE])
    # By state the rule that begins there, -1 for none.
    rule_at = np.full(count, -1, dtype=np.int64)
    rule_at[starts] = np.arange(len(starts))
    distance = np.full(count, -1, dtype=np.int64)
    first_moves = np.full((count, 3), -1, dtype=np.int32)
    # Cost, a number for ties, and the move: state, byte, rule, target. The order is only that of
    # cost and tie, as no two ties are equal. The first entry shows numba the type.
    heap: list[Any] = [(np.int64(0), -1, -1, -1, -1, -1)]
    heap.pop()
    # A byte costs one, and states are settled in the order of their costs: so states reached by a
    # byte come in that order, and a queue suffices for them. Cost, tie, state, edge; -1 for the
    # edge of an end. There is room, as each state and each edge is added at most once.
    queue = np.empty((count + len(edges), 4), dtype=np.int64)
    head, tail, ties = 0, 0, 0
    for state in range(count):
        if known_distance[state] == 0:
            queue[tail, 0], queue[tail, 1], queue[tail, 2], queue[tail, 3] = 0, ties, state, -1
            tail += 1
        elif known_distance[state] != -1:
            heapq.heappush(heap, (known_distance[state], ties, state, -1, -1, -1))
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
        if distance[state] != -1:
            continue  # It was settled before, with the same cost or a lower one.
        distance[state] = cost
        first_moves[state, 0], first_moves[state, 1], first_moves[state, 2] = byte, rule, target
        for at in range(edges_first[state], edges_first[state + 1]):
            edge = edges_into[at]
            if distance[edges[edge, _SOURCE]] == -1:
                queue[tail, 0], queue[tail, 1] = min(cost + 1, MAX_DISTANCE), ties
                queue[tail, 2], queue[tail, 3] = edges[edge, _SOURCE], edge
                tail += 1
                ties += 1
        # Calls that return to the state: their cost is known if their callee is settled.
        for at in range(before_first[state], before_first[state + 1]):
            call = calls[calls_before[at]]
            inside = distance[starts[call[_RULE]]]
            if distance[call[_SOURCE]] == -1 and inside != -1:
                _push_call(heap, cost + inside, ties, call)
                ties += 1
        # Calls of the rule that starts here: known if the state after the call is settled.
        callee = rule_at[state]
        if callee != -1:
            for at in range(in_first[callee], in_first[callee + 1]):
                call = calls[calls_of[at]]
                after = distance[call[_TARGET]]
                if distance[call[_SOURCE]] == -1 and after != -1:
                    _push_call(heap, cost + after, ties, call)
                    ties += 1
    return distance, first_moves
