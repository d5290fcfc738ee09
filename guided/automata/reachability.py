"""Which states of a transition table matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["coaccessible", "reachable"]

_DEAD = -1


def reachable(table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the states that can be reached from state 0; bool ``[states]``."""
    found = np.zeros(len(table), dtype=np.bool_)
    stack = [0] if len(table) else []
    found[:1] = True
    while stack:
        for target in np.unique(table[stack.pop()]).tolist():
            if target != _DEAD and not found[target]:
                found[target] = True
                stack.append(target)
    return found


def coaccessible(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the states from which an accepting state can be reached; bool ``[states]``."""
    sources, columns = np.nonzero(table != _DEAD)
    targets = table[sources, columns]
    order = np.argsort(targets, kind="stable")
    sources = sources[order]
    first = np.searchsorted(targets[order], np.arange(len(accepting) + 1))
    live = accepting.copy()
    stack = np.nonzero(live)[0].tolist()
    while stack:
        state = stack.pop()
        for source in sources[first[state] : first[state + 1]].tolist():
            if not live[source]:
                live[source] = True
                stack.append(source)
    return live
