"""Compiled code that follows the shortest way to a rule's end: a text may have a million bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.regular.dfa import DEAD
from guided.runtime.kernel import kernel

__all__ = ["follow_way"]

Ints = NDArray[np.int32]


@kernel
def follow_way(
    network: tuple[Ints, Ints, int],
    state: int,
    text: NDArray[np.uint8],
    size: int,
    returns: Ints,
    depth: int,
) -> tuple[int, int, int]:
    """Write the bytes from a state to the end of the rule that the way began in, or to a hole.

    ``network`` is ``Network.ways``, the first states of rules, and the first state of a hole.
    ``text`` has ``size`` bytes already. ``returns`` are the states after the calls that the way is
    in, ``depth`` of them; it calls no rule inside itself, so there are no more than rules. Returns
    the state that it ends in, that of the hole or the last of the rule, with ``size`` and ``depth``
    there.
    """
    ways, starts, first_hole = network
    while state < first_hole:
        byte, rule, target = ways[state]
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
