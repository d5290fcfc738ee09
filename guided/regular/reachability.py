"""What can be reached along the moves of a table; compiled, as tables have thousands of rows.

Tables are int32 ``[states, classes]`` with -1 for no move; see ``guided.regular.transitions``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import moves_by_state, moves_into
from guided.runtime.kernel import making_kernel

__all__ = [
    "STOP",
    "coaccessible",
    "count_texts",
    "endless_states",
    "fewer_code_points",
    "reaches_end",
]

STOP: Final = -1
"""In place of a byte: the shortest completion ends here."""
# As in ``dfa``, which imports this module.
_DEAD: Final = -1


def reaches_end(
    table: NDArray[np.int32], accepting: NDArray[np.bool_], taken: NDArray[np.bool_]
) -> bool:
    """Return whether moves on the classes ``taken``, bool ``[classes]``, lead 0 to an end."""
    return len(table) > 0 and bool(_reaches_end(np.ascontiguousarray(table), accepting, taken))


def coaccessible(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the states from which an accepting state can be reached; bool ``[states]``."""
    return _coaccessible(np.ascontiguousarray(table), accepting)


def endless_states(table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the states from which a cycle can be reached; bool ``[states]``."""
    sizes = np.zeros(table.shape[1], dtype=np.int64)
    ends = np.zeros(len(table), dtype=np.bool_)
    _, is_finite = _count_texts(np.ascontiguousarray(table), sizes, ends, 0)
    return ~is_finite


def count_texts(
    table: NDArray[np.int32], byte_class: NDArray[np.uint8], ends: NDArray[np.bool_], limit: int
) -> NDArray[np.int64]:
    """Return how many texts lead from each state to an end, ``limit`` if there are more.

    Also ``limit`` if a cycle is ahead, even one that no end follows: pass a trimmed table. 257
    times ``limit`` must fit into int64.
    """
    sizes = np.bincount(byte_class, minlength=table.shape[1]).astype(np.int64)
    texts, is_finite = _count_texts(np.ascontiguousarray(table), sizes, ends, limit)
    return np.where(is_finite, texts, limit)


@making_kernel
def fewer_code_points(table: NDArray[np.int32], between: int, need: NDArray[np.int32]) -> bool:
    """Lower ``need``, the code points from each state to an end, by what its moves lead to.

    int32 ``[states]``; a byte completes one if it leads to one of the first ``between`` states.
    Returns whether anything changed: the caller begins with 0 at ends and elsewhere more than any
    way takes, and calls until nothing does. Later states come first, as most moves lead to them.
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


@making_kernel
def _reaches_end(
    table: NDArray[np.int32], accepting: NDArray[np.bool_], taken: NDArray[np.bool_]
) -> bool:
    """Compute ``reaches_end``: a search from state 0 that stops at the first end."""
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
def _coaccessible(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Compute ``coaccessible``: a search from the accepting states against the moves."""
    into = moves_into(moves_by_state(table))
    live = accepting.copy()
    stack = [state for state in range(len(live)) if live[state]]
    while stack:
        state = stack.pop()
        for edge in range(into.first[state], into.first[state + 1]):
            source = into.sources[edge]
            if not live[source]:
                live[source] = True
                stack.append(int(source))
    return live


@making_kernel
def _count_texts(
    table: NDArray[np.int32], sizes: NDArray[np.int64], ends: NDArray[np.bool_], limit: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many texts lead from each state to an end, up to ``limit``; and if acyclic.

    States are peeled off from the ends (Kahn, 1962): a state falls when all that it leads to have
    fallen, and then its number is final. From states that never fall a cycle can be reached, and
    their numbers mean nothing. ``sizes`` has the number of bytes in each class. ``endless_states``
    only reads the second result.
    """
    moves = moves_by_state(table)
    into = moves_into(moves)
    ahead = np.diff(moves.first)
    texts = ends.astype(np.int64)
    fallen = np.zeros(len(table), dtype=np.bool_)
    stack = [state for state in range(len(table)) if ahead[state] == 0]
    while stack:
        state = stack.pop()
        fallen[state] = True
        for edge in range(into.first[state], into.first[state + 1]):
            source = into.sources[edge]
            more = sizes[into.classes[edge]] * texts[state]
            texts[source] = min(texts[source] + more, limit)
            ahead[source] -= 1
            if ahead[source] == 0:
                stack.append(int(source))
    return texts, fallen
