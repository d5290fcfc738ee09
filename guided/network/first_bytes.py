"""Which bytes may come first behind a rule, wherever it is called."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.automata.dfa import DEAD
from guided.network.components import components
from guided.network.network import Network

__all__ = ["bytes_behind", "call_order"]


def call_order(network: Network) -> list[int]:
    """The rules, each before those that it calls before it reads a byte."""
    leading = {
        rule: {edge.rule for edge in network.calls[start]}
        for rule, start in enumerate(network.starts)
    }
    found = components(leading)
    assert all(len(component) == 1 for component in found), "left recursion"
    return [rule for component in reversed(found) for rule in component]


def bytes_behind(network: Network) -> NDArray[np.bool_]:
    """By rule the classes of bytes that may come behind its texts, bool ``[rules, classes]``."""
    asked = {*network.starts, *(edge.target for edges in network.calls for edge in edges)}
    place = {state: at for at, state in enumerate(sorted(asked))}
    own: NDArray[np.bool_] = network.moves[[*place]] != DEAD
    for state, hole in enumerate(network.holes, start=network.first_hole):
        own[place[state], network.byte_class[sorted(hole.first)]] = True
    behind = np.zeros((len(network.starts), own.shape[1]), dtype=np.bool_)
    first = np.zeros_like(behind)
    for rule in reversed(call_order(network)):
        start = network.starts[rule]
        first[rule] = own[place[start]]
        for edge in network.calls[start]:
            first[rule] |= first[edge.rule]
    # Where a call may end its caller, what is behind the caller is behind the call as well.
    callers: list[set[int]] = [set() for _ in network.starts]
    for source, edges in enumerate(network.calls):
        for callee, target in edges:
            behind[callee] |= own[place[target]]
            for edge in network.calls[target]:
                behind[callee] |= first[edge.rule]
            if network.accepting[target]:
                callers[network.rule_of(source)].add(callee)
    waiting = list(range(len(network.starts)))
    while waiting:
        caller = waiting.pop()
        for callee in callers[caller]:
            joined = behind[callee] | behind[caller]
            if (joined != behind[callee]).any():
                behind[callee] = joined
                waiting.append(callee)
    return behind
