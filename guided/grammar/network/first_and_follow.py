"""The FIRST and FOLLOW sets of the rules of a network, over classes of bytes.

The machine needs FOLLOW where a rule may end and its automaton may also read on: only a byte in
both is ambiguous.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from guided.grammar.network.components import strongly_connected_components
from guided.grammar.network.network import Network
from guided.regular.dfa import DEAD

__all__ = ["call_order", "follow_sets"]


def call_order(network: Network) -> list[int]:
    """Return the rules in topological order: each before those that it calls in its start state.

    The order exists as networks have no left recursion. ``Calls`` enters rules in this order, and
    ``follow_sets`` uses the reverse.
    """
    leading = {
        rule: {edge.rule for edge in network.calls[start]}
        for rule, start in enumerate(network.starts)
    }
    found = strongly_connected_components(leading)
    assert all(len(component) == 1 for component in found), "left recursion"
    return [rule for component in reversed(found) for rule in component]


def follow_sets(network: Network) -> NDArray[np.bool_]:
    """Return the FOLLOW set of each rule as classes of bytes, bool ``[rules, classes]``.

    A set is the union over all call sites of the rule. Holes are rules too. A class too many costs
    only time, as the stack then decides; one too few would lose parses.
    """
    # The start states of rules, and the states that calls return to. ``is_read`` and
    # ``read_sets`` have the classes read there without a call; for a hole, its first bytes.
    entry_states = sorted(
        {*network.starts, *(edge.target for edges in network.calls for edge in edges)}
    )
    is_read: NDArray[np.bool_] = network.moves[entry_states] != DEAD
    for hole, text in enumerate(network.holes):
        at = bisect_left(entry_states, network.first_hole + hole)
        is_read[at, network.byte_class[sorted(text.first)]] = True
    # Sets are bit vectors in Python ints: there are many small ones to unite.
    read_sets = dict(zip(entry_states, _pack_bits(is_read), strict=True))
    # FIRST, callees before callers. No rule is nullable, so what follows a call adds nothing to
    # FIRST of the caller.
    first = [0] * len(network.starts)
    for rule in reversed(call_order(network)):
        start = network.starts[rule]
        first[rule] = read_sets[start]
        for edge in network.calls[start]:
            first[rule] |= first[edge.rule]
    # FOLLOW of a callee includes FIRST of the state that the call returns to, and FOLLOW of the
    # caller if that may end there.
    follow = [0] * len(network.starts)
    # By rule the rules whose calls may end it.
    last_calls: list[set[int]] = [set() for _ in network.starts]
    for source, edges in enumerate(network.calls):
        for callee, target in edges:
            follow[callee] |= read_sets[target]
            for edge in network.calls[target]:
                follow[callee] |= first[edge.rule]
            if network.accepting[target]:
                last_calls[network.rule_of(source)].add(callee)
    # A rule is examined again whenever its set has grown, up to the fixed point.
    worklist = list(range(len(network.starts)))
    while worklist:
        caller = worklist.pop()
        for callee in last_calls[caller]:
            joined = follow[callee] | follow[caller]
            if joined != follow[callee]:
                follow[callee] = joined
                worklist.append(callee)
    return _unpack_bits(follow, is_read.shape[1])


def _pack_bits(sets: NDArray[np.bool_]) -> list[int]:
    """Return each row as an int with one bit per column, column 0 the lowest."""
    packed = np.packbits(sets, axis=1, bitorder="little")
    size, whole = packed.shape[1], packed.tobytes()
    return [int.from_bytes(whole[at : at + size], "little") for at in range(0, len(whole), size)]


def _unpack_bits(numbers: Iterable[int], width: int) -> NDArray[np.bool_]:
    """Return the inverse of ``_pack_bits``, bool ``[numbers, width]``."""
    size = (width + 7) // 8
    whole = b"".join([number.to_bytes(size, "little") for number in numbers])
    packed = np.frombuffer(whole, dtype=np.uint8).reshape(-1, size)
    return np.unpackbits(packed, axis=1, count=width, bitorder="little").astype(np.bool_)
