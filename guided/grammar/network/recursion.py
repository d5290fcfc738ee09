"""Recursion that needs no stack: rules that begin with calls of themselves, or end with them.

No automaton here accepts the empty text.

A rule that *begins* with itself would be called again and again before a byte is read. The rules of
a component that do so of each other are turned inside out: whoever is called, one begins with some
member's part that calls no member first, and what is then complete is the first call of some
further part. The complete members are *hubs*, from which the parts lead on::

    sum: sum "+" NUMBER | NUMBER   ->   start -NUMBER-> hub    hub -"+" NUMBER-> hub    end: hub

A rule that *ends* with itself goes back to its start::

    list: item "," list | item     ->   start -item "," -> start    start -item-> end
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.grammar.network.letters import (
    call_edges,
    called,
    calls_in,
    determined,
    letters,
    paste,
    simpler,
    without_calls,
)
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.nfa import Nfa

__all__ = ["begins_with", "substituted", "without_ending_calls", "without_leading_calls"]

_NO_RULES: Final[frozenset[int]] = frozenset()
_NOTHING: Final[Mapping[int, Set[int]]] = {}


def begins_with(dfa: Dfa) -> set[int]:
    """The rules that an automaton calls before it reads a byte."""
    return {rule for source, rule, _ in call_edges(dfa) if source == 0}


def without_leading_calls(rule: int, component: Iterable[int], automata: Mapping[int, Dfa]) -> Dfa:
    """The automaton of a rule which begins with no call of the rules of its component."""
    nfa = Nfa()
    start = nfa.add_states()
    hubs = {member: nfa.add_states() for member in component}
    for member, hub in hubs.items():
        dfa = automata[member]
        first = paste(nfa, dfa, dfa.classes)
        for chars, target in zip(dfa.classes, dfa.next[0].tolist(), strict=True):
            if target == DEAD:
                continue
            for callee in calls_in(chars):
                if callee in hubs:
                    nfa.empties.add(hubs[callee], first + target)
            if kept := without_calls(chars, hubs.keys()):
                nfa.add_move(start, kept, first + target)
        for end in np.nonzero(dfa.accepting)[0].tolist():
            nfa.empties.add(first + end, hub)
    nfa.final = hubs[rule]
    return determined(nfa)


def without_ending_calls(rule: int, dfa: Dfa) -> Dfa:
    """The automaton of a rule with the calls of itself left out that end it.

    Where more may follow such a call, it is left out only if that changes nothing: what follows
    it is then what might follow inside of it. So ``a: a a | "x"`` is the plain automaton of x+.
    """
    if rule not in called(dfa):
        return dfa
    is_last: NDArray[np.bool_] = dfa.accepting & (dfa.next == DEAD).all(axis=1)
    looped = _looped(rule, dfa, is_last)
    dfa = dfa if looped is None else looped
    accepting = dfa.accepting
    if all(not accepting[target] for _, callee, target in call_edges(dfa) if callee == rule):
        return dfa
    looped = _looped(rule, dfa, accepting)
    if looped is None:
        return dfa
    again = substituted(dfa, {rule}, {rule: looped}, chosen=lambda target: bool(accepting[target]))
    return looped if again is not None and _equal(looped, again) else dfa


def _looped(rule: int, dfa: Dfa, is_end: NDArray[np.bool_]) -> Dfa | None:
    """The automaton with calls of itself that lead to an end replaced by a way to its start.

    ``None`` where it would grow much; raises LimitExceededError past MAX_NFA_STATES.
    """
    edges = [(source, to) for source, callee, to in call_edges(dfa) if callee == rule]
    if not any(is_end[target] for _, target in edges):
        return dfa
    nfa, first = _begun(dfa, [rule])
    for source, target in edges:
        if is_end[target]:
            nfa.empties.add(first + source, first)
        else:
            nfa.add_move(first + source, letters([rule]), first + target)
    return simpler(nfa)


def substituted(
    dfa: Dfa,
    replaced: Set[int],
    bodies: Mapping[int, Dfa],
    within: Mapping[int, Set[int]] = _NOTHING,
    chosen: Callable[[int], bool] = lambda _: True,
) -> Dfa | None:
    """The automaton with the calls of ``replaced`` rules replaced by the rules' own automata.

    Only calls whose targets are ``chosen``. ``within`` tells of those rules which calls are
    replaced in them, and so on. ``None`` where it would grow much; raises LimitExceededError past
    MAX_NFA_STATES.
    """
    nfa, start = _begun(dfa, replaced)
    copies: dict[tuple[int, int], int] = {}
    kept: dict[int, list[CodePoints]] = {}
    pasted = [(start, dfa, replaced)]
    for first, caller, inner in pasted:
        for source, rule, target in call_edges(caller):
            if rule not in inner:
                continue
            if caller is dfa and not chosen(target):
                nfa.add_move(first + source, letters([rule]), first + target)
                continue
            body = bodies[rule]
            # One copy serves all calls that go on in the same place.
            copy = copies.get((rule, first + target))
            if copy is None:
                further = within.get(rule, _NO_RULES)
                sets = kept.get(rule)
                if sets is None:
                    sets = kept[rule] = [without_calls(chars, further) for chars in body.classes]
                copy = copies[rule, first + target] = paste(nfa, body, sets)
                pasted.append((copy, body, further))
                for end in np.nonzero(body.accepting)[0].tolist():
                    nfa.empties.add(copy + end, first + target)
            nfa.empties.add(first + source, copy)
    return simpler(nfa)


def _begun(dfa: Dfa, left_out: Iterable[int]) -> tuple[Nfa, int]:
    """An automaton without the calls of some rules, and the first of its states that are pasted."""
    nfa = Nfa()
    start = nfa.add_states()
    rules = set(left_out)
    first = paste(nfa, dfa, [without_calls(chars, rules) for chars in dfa.classes])
    nfa.empties.add(start, first)
    nfa.final = nfa.add_states()
    for end in np.nonzero(dfa.accepting)[0].tolist():
        nfa.empties.add(first + end, nfa.final)
    return nfa, first


def _equal(left: Dfa, right: Dfa) -> bool:
    differing = combine(
        [left, right], lambda labels: 0 if (labels[0] == DEAD) != (labels[1] == DEAD) else DEAD
    )
    return not len(differing)
