"""Grows a draft tree by its likeliest token, whatever estimates how likely a token is.

A node's chance is its parent's times its own, so no node is ever likelier than the one before it.
So the tree is the best one for any number of nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

from guided.decoding.drafter import DraftBuilder
from guided.spec import TokenId

__all__ = ["draft_best_first"]

State = TypeVar("State")


def draft_best_first(
    builder: DraftBuilder,
    root_state: State,
    propose: Callable[[int, State], Sequence[tuple[TokenId, float]]],
    follow: Callable[[State, list[TokenId]], State],
) -> None:
    """Draft from the root on, as long as it pays.

    ``root_state`` is the drafter's state at the root. ``propose`` returns the tokens that may come
    after a node in some state, each with its chance if the node is right. ``follow`` returns the
    state after some more tokens: a token and the run that it forces.
    """
    root = builder.root
    states = {root: root_state}
    # The age breaks ties, so the same proposals always give the same tree.
    heap: list[tuple[float, int, int, TokenId]] = []
    made = 0
    worklist: list[tuple[int, float]] = [(root, 1.0)]
    while worklist or heap:
        for node, chance in worklist:
            # No token after a node is likelier than the node.
            if builder.matcher(node).is_complete or not builder.pays(1, chance):
                continue
            for token, likely in propose(node, states[node]):
                if builder.pays(1, chance * likely):
                    heapq.heappush(heap, (1.0 - chance * likely, made, node, token))
                    made += 1
        worklist = []
        if heap:
            loss, _, node, token = heapq.heappop(heap)
            continuation = builder.add(node, token, 1.0 - loss)
            if continuation is None:
                # Another drafter may have been first; else it is not allowed or not worth it.
                continuation = builder.find(node, token)
            if continuation is not None and continuation not in states:
                states[continuation] = follow(states[node], builder.path(node, continuation))
                worklist = [(continuation, 1.0 - loss)]
