"""Which rules have a text at all, and which have the empty one: least fixed points over calls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from guided.grammar.network.letters import BYTES, called, calls_in, holds_hole
from guided.regular.dfa import DEAD, Dfa
from guided.regular.reachability import reaches_end
from guided.runtime.fuel import spend

__all__ = ["nullable_rules", "productive_rules"]


def nullable_rules(automata: Mapping[int, Dfa]) -> set[int]:
    """The rules that have the empty text."""
    return _closed(automata, reads_bytes=False)


def productive_rules(automata: Mapping[int, Dfa]) -> set[int]:
    """The rules that have any text."""
    return _closed(automata, reads_bytes=True)


def _closed(automata: Mapping[int, Dfa], *, reads_bytes: bool) -> set[int]:
    """The least set of rules whose automata reach an end by calls of rules in the set.

    With ``reads_bytes`` by bytes and holes as well.
    """
    callers: dict[int, list[int]] = {}
    for rule, dfa in automata.items():
        for callee in called(dfa):
            callers.setdefault(callee, []).append(rule)
    found: set[int] = set()
    waiting = list(automata)
    while waiting:
        rule = waiting.pop()
        if rule in found or not _reaches_end(automata[rule], found, reads_bytes):
            continue
        found.add(rule)
        waiting += callers.get(rule, ())
    return found


def _reaches_end(dfa: Dfa, rules: set[int], reads_bytes: bool) -> bool:
    if not len(dfa):
        return False
    spend(1 + dfa.next.size // 16)
    if dfa.label[0] != DEAD:
        return True
    taken = [
        (reads_bytes and bool(chars.ranges) and chars.ranges[0][0] <= BYTES.ranges[0][1])
        or (reads_bytes and holds_hole(chars))
        or any(rule in rules for rule in calls_in(chars))
        for chars in dfa.classes
    ]
    if all(taken) or not any(taken):
        # Trimmed, it reaches an end by all of its moves, and without any by none.
        return any(taken)
    return reaches_end(dfa.next, dfa.accepting, np.array(taken, dtype=np.bool_))
