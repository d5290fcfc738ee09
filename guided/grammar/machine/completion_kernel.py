"""Compiled code that writes shortest completions, which may have a million bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.regular.dfa import DEAD
from guided.runtime.kernel import kernel

__all__ = ["write_shortest_text"]

Ints = NDArray[np.int32]


@kernel
def write_shortest_text(
    network: tuple[Ints, Ints, int],
    state: int,
    text: NDArray[np.uint8],
    size: int,
    returns: Ints,
    depth: int,
) -> tuple[int, int, int]:
    """Write the bytes of a shortest path from a state to the end of its rule, or to a hole.

    ``network`` is ``Network.shortest_moves``, the first states of rules, and the first state of a
    hole. Of ``text`` the first ``size`` bytes are written already; its length must be at least the
    ``Network.distance`` of the state in which the first of the calls for one text began.
    ``returns`` is the call stack, of ``depth`` states to return to; a shortest path is not
    recursive, so there are at most as many as rules. Returns the state in which the path ends, that
    of the hole or the last one of the rule, and the new ``size`` and ``depth``.
    """
    shortest_moves, starts, first_hole = network
    while state < first_hole:
        byte, rule, target = shortest_moves[state]
        if target == DEAD:
            if not depth:
                break
            depth -= 1
            state = returns[depth]
        elif rule != DEAD:
            returns[depth] = target
            depth += 1
            state = starts[rule]
        else:
            text[size] = byte
            size += 1
            state = target
    return state, size, depth
