"""Which states of a transition table matter; compiled, since tables have many thousand rows."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.runtime.kernel import making_kernel

__all__ = [
    "coaccessible",
    "count_texts",
    "endless_states",
    "reaches_end",
]

_DEAD: Final = -1


def reaches_end(
    table: NDArray[np.int32], accepting: NDArray[np.bool_], taken: NDArray[np.bool_]
) -> bool:
    """Whether moves on the classes that are ``taken``, bool ``[classes]``, lead 0 to an end."""
    return len(table) > 0 and bool(_reaches_end(np.ascontiguousarray(table), accepting, taken))


def coaccessible(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the states from which an accepting state can be reached; bool ``[states]``."""
    first, sources, _ = _reverse_moves(table)
    live = accepting.copy()
    _flood_backward(first, sources, live)
    return live


def endless_states(table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the states that a circle of moves can be reached from; bool ``[states]``.

    States are peeled off from the ends: one falls once all that it leads to have fallen.
    """
    first, sources, _ = _reverse_moves(table)
    ways_on = (table != _DEAD).sum(axis=1)
    endless = np.ones(len(table), dtype=np.bool_)
    _peel(first, sources, ways_on.astype(np.int64), endless)
    return endless


def count_texts(
    table: NDArray[np.int32], byte_class: NDArray[np.uint8], ends: NDArray[np.bool_], limit: int
) -> NDArray[np.int64]:
    """How many texts lead from each state to an end, ``limit`` where they are as many or more."""
    first, sources, classes = _reverse_moves(table)
    ways_on = (table != _DEAD).sum(axis=1).astype(np.int64)
    sizes = np.bincount(byte_class, minlength=table.shape[1]).astype(np.int64)
    texts = ends.astype(np.int64)
    fallen = np.zeros(len(table), dtype=np.bool_)
    _count_texts(first, sources, sizes[classes], ways_on, limit, texts, fallen)
    return np.where(fallen, texts, limit)


def _reverse_moves(
    table: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The moves into state ``s``: sources and classes from ``first[s]`` to ``first[s + 1]``."""
    return _reversed(np.ascontiguousarray(table))  # type: ignore[no-any-return]


@making_kernel
def _reaches_end(table, accepting, taken):  # type: ignore[no-untyped-def]
    found = np.zeros(len(table), dtype=np.bool_)
    stack = [0]
    found[0] = True
    while stack:
        state = stack.pop()
        if accepting[state]:
            return True
        for index in range(table.shape[1]):
            target = table[state, index]
            if taken[index] and target != _DEAD and not found[target]:
                found[target] = True
                stack.append(int(target))
    return False


@making_kernel
def _flood_backward(first, sources, live):  # type: ignore[no-untyped-def]
    stack = [state for state in range(len(live)) if live[state]]
    while stack:
        state = stack.pop()
        for edge in range(first[state], first[state + 1]):
            source = sources[edge]
            if not live[source]:
                live[source] = True
                stack.append(int(source))


@making_kernel
def _reversed(table):  # type: ignore[no-untyped-def]
    # Counting sort by target: counts go two places up, so that filling ends with the starts.
    count, moves = len(table), 0
    first = np.zeros(count + 2, dtype=np.int64)
    for state in range(table.shape[0]):
        for target in table[state]:
            if target != _DEAD:
                first[target + 2] += 1
                moves += 1
    for state in range(2, len(first)):
        first[state] += first[state - 1]
    sources = np.empty(moves, dtype=np.int32)
    classes = np.empty(moves, dtype=np.int32)
    for state in range(table.shape[0]):
        for index in range(table.shape[1]):
            target = table[state, index]
            if target != _DEAD:
                edge = first[target + 1]
                sources[edge] = state
                classes[edge] = index
                first[target + 1] += 1
    return first[: count + 1], sources, classes


@making_kernel
def _peel(first, sources, ways_on, endless):  # type: ignore[no-untyped-def]
    stack = [state for state in range(len(ways_on)) if ways_on[state] == 0]
    while stack:
        state = stack.pop()
        endless[state] = False
        for edge in range(first[state], first[state + 1]):
            source = sources[edge]
            ways_on[source] -= 1
            if ways_on[source] == 0:
                stack.append(int(source))


@making_kernel
def _count_texts(first, sources, sizes, ways_on, limit, texts, fallen):  # type: ignore[no-untyped-def]
    # A state falls when all that it leads to have fallen, so its number of texts is final then.
    stack = [state for state in range(len(ways_on)) if ways_on[state] == 0]
    while stack:
        state = stack.pop()
        fallen[state] = True
        for edge in range(first[state], first[state + 1]):
            source = sources[edge]
            texts[source] = min(texts[source] + sizes[edge] * texts[state], limit)
            ways_on[source] -= 1
            if ways_on[source] == 0:
                stack.append(int(source))
