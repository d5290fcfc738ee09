"""What can be reached along the moves of a table; compiled, as tables have thousands of rows.

Tables are int32 ``[states, classes]`` with -1 for no move; see ``guided.regular.transitions``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import moves_by_state, moves_into, spread
from guided.runtime.kernel import allocating_kernel

__all__ = [
    "STOP",
    "coaccessible",
    "count_texts",
    "relax_code_points",
    "states_reaching_cycle",
]

STOP: Final = -1
"""In place of a byte: the shortest completion ends here."""


def coaccessible(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the states from which an accepting state can be reached; bool ``[states]``."""
    return _coaccessible(np.ascontiguousarray(table), accepting)


def states_reaching_cycle(table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the states from which a cycle can be reached; bool ``[states]``."""
    sizes = np.zeros(table.shape[1], dtype=np.int64)
    ends = np.zeros(len(table), dtype=np.bool_)
    _, is_finite = _count_texts(np.ascontiguousarray(table), sizes, ends, 0)
    return ~is_finite


def count_texts(
    table: NDArray[np.int32], byte_class: NDArray[np.uint8], ends: NDArray[np.bool_], limit: int
) -> NDArray[np.int64]:
    """Return for each state how many texts lead from it to an end, at most ``limit``.

    ``ends``, bool ``[states]``, marks the ends. ``limit`` also if a cycle can be reached, even one
    that leads to no end: pass a trimmed table. 257 times ``limit`` must fit into int64.
    """
    sizes = np.bincount(byte_class, minlength=table.shape[1]).astype(np.int64)
    texts, is_finite = _count_texts(np.ascontiguousarray(table), sizes, ends, limit)
    return np.where(is_finite, texts, limit)


@allocating_kernel
def relax_code_points(
    table: NDArray[np.int32], num_boundary_states: int, min_remaining: NDArray[np.int32]
) -> bool:
    """Relax ``min_remaining``, the fewest code points from each state to an end (Bellman-Ford).

    Changes it in place, int32 ``[states]``, by one pass over all moves, and returns whether
    anything changed. The caller begins with 0 at ends and more than any path takes elsewhere, and
    calls until nothing changes. A byte completes a code point if it leads to one of the first
    ``num_boundary_states`` states. Later states come first, as most moves lead to later states.
    """
    changed = False
    for state in range(len(table) - 1, -1, -1):
        for target in table[state]:
            if target >= 0:
                through = min_remaining[target] + (1 if target < num_boundary_states else 0)
                if through < min_remaining[state]:
                    min_remaining[state] = through
                    changed = True
    return changed


@allocating_kernel
def _coaccessible(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Compute ``coaccessible``: along reversed moves from the accepting states."""
    into = moves_into(moves_by_state(table))
    return spread(into.first, into.sources, accepting)


@allocating_kernel
def _count_texts(
    table: NDArray[np.int32], sizes: NDArray[np.int64], ends: NDArray[np.bool_], limit: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many texts lead from each state to an end, up to ``limit``, and where that holds.

    A topological sort (Kahn, 1962): a state is removed when all that it leads to have been, and
    then its number is final. States that are never removed lead to a cycle, and their numbers mean
    nothing. The second result, bool ``[states]``, marks those that were removed. ``sizes`` has the
    number of bytes in each class.
    """
    moves = moves_by_state(table)
    into = moves_into(moves)
    num_moves = np.diff(moves.first)
    texts = ends.astype(np.int64)
    removed = np.zeros(len(table), dtype=np.bool_)
    stack = [state for state in range(len(table)) if num_moves[state] == 0]
    while stack:
        state = stack.pop()
        removed[state] = True
        for edge in range(into.first[state], into.first[state + 1]):
            source = into.sources[edge]
            more = sizes[into.classes[edge]] * texts[state]
            texts[source] = min(texts[source] + more, limit)
            num_moves[source] -= 1
            if num_moves[source] == 0:
                stack.append(int(source))
    return texts, removed
