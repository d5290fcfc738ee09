"""FIRST and FOLLOW of a network: the bytes that rules begin with, and those that may come after.

The machine needs FOLLOW where a rule may end and its automaton may also read on: only if the next
byte is in both must both be tried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from guided.grammar.network.components import components
from guided.grammar.network.network import Network
from guided.regular.dfa import DEAD

__all__ = ["call_order", "follow_sets"]


def call_order(network: Network) -> list[int]:
    """Return the rules, each before those that it calls before it reads a byte.

    Such an order exists, as networks have no left recursion. ``Calls`` begins calls in it, and
    ``follow_sets`` uses it backwards.
    """
    leading = {
        rule: {edge.rule for edge in network.calls[start]}
        for rule, start in enumerate(network.starts)
    }
    found = components(leading)
    assert all(len(component) == 1 for component in found), "left recursion"
    return [rule for component in reversed(found) for rule in component]


def follow_sets(network: Network) -> NDArray[np.bool_]:
    """Return by rule the byte classes that may come after its texts, bool ``[rules, classes]``.

    The sets are for all callers of a rule: in one place some bytes may not come. Holes are rules
    too.
    """
    # Where rules begin, and where calls return to: ``own`` and ``read`` have what is read there
    # without a call. A hole reads what its texts begin with.
    asked = sorted({*network.starts, *(edge.target for edges in network.calls for edge in edges)})
    own: NDArray[np.bool_] = network.moves[asked] != DEAD
    for hole, text in enumerate(network.holes):
        at = bisect_left(asked, network.first_hole + hole)
        own[at, network.byte_class[sorted(text.first)]] = True
    # Sets are the bits of a number: there are many small ones to join.
    read = dict(zip(asked, _as_numbers(own), strict=True))
    # Callees first: no rule calls itself before it reads a byte, so there is such an order. No
    # rule has the empty text, so what comes after a call adds nothing to FIRST of the caller.
    first = [0] * len(network.starts)
    for rule in reversed(call_order(network)):
        start = network.starts[rule]
        first[rule] = read[start]
        for edge in network.calls[start]:
            first[rule] |= first[edge.rule]
    # FOLLOW of a call is FIRST of the state that it returns to. If a call may end its caller,
    # what follows the caller also follows the call.
    follow = [0] * len(network.starts)
    # By rule the rules that it may end with.
    last_calls: list[set[int]] = [set() for _ in network.starts]
    for source, edges in enumerate(network.calls):
        for callee, target in edges:
            follow[callee] |= read[target]
            for edge in network.calls[target]:
                follow[callee] |= first[edge.rule]
            if network.accepting[target]:
                last_calls[network.rule_of(source)].add(callee)
    # A rule is examined again whenever its set has grown, until nothing grows any more.
    waiting = list(range(len(network.starts)))
    while waiting:
        caller = waiting.pop()
        for callee in last_calls[caller]:
            joined = follow[callee] | follow[caller]
            if joined != follow[callee]:
                follow[callee] = joined
                waiting.append(callee)
    return _as_sets(follow, own.shape[1])


def _as_numbers(sets: NDArray[np.bool_]) -> list[int]:
    """Return each row as a number, one bit per column, column 0 the lowest."""
    packed = np.packbits(sets, axis=1, bitorder="little")
    size, whole = packed.shape[1], packed.tobytes()
    return [int.from_bytes(whole[at : at + size], "little") for at in range(0, len(whole), size)]


def _as_sets(numbers: Iterable[int], width: int) -> NDArray[np.bool_]:
    """Return the inverse of ``_as_numbers``, bool ``[numbers, width]``."""
    size = (width + 7) // 8
    whole = b"".join([number.to_bytes(size, "little") for number in numbers])
    packed = np.frombuffer(whole, dtype=np.uint8).reshape(-1, size)
    return np.unpackbits(packed, axis=1, count=width, bitorder="little").astype(np.bool_)
