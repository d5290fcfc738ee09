"""Recursion that needs no stack: rules that begin with calls of themselves, or end with them.

No automaton here accepts the empty text.

A rule that *begins* with itself would be called again and again before a byte is read. The rules of
a component that begin with each other are turned inside out: whichever is called, a text of it
begins with a part of some member that calls no member first, and what is then complete is the first
call of a further part. The complete members are *hubs*, from which the parts lead on::

    sum: sum "+" NUMBER | NUMBER   ->   start -NUMBER-> hub    hub -"+" NUMBER-> hub    end: hub

A rule that *ends* with itself leads back to its start::

    list: item "," list | item     ->   start -item "," -> start    start -item-> end
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from guided.grammar.network.components import components
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    determined,
    determined_if_small,
    first_calls,
    paste,
    paste_without,
    substituted,
)
from guided.grammar.network.symbols import Kind, edges_over, numbers_in, symbol_set, without_calls
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.nfa import Nfa

__all__ = ["without_ending_calls", "without_leading_calls", "without_left_recursion"]


def without_left_recursion(automata: RuleAutomata, start: int) -> dict[int, Dfa]:
    """Return the automata of the start rule and all that it calls, none of them left-recursive.

    Raises LimitExceededError if one grows too large by the copies in it.
    """
    leading = {rule: first_calls(dfa) for rule, dfa in automata.items()}
    changed = dict(automata)
    # Each member of a component gets an automaton with a copy of the bodies of all of them.
    for component in components(leading):
        members = sorted(component)
        if len(members) > 1 or members[0] in leading[members[0]]:
            for rule in members:
                changed[rule] = without_leading_calls(rule, members, automata)
    # Nothing calls rules any more that only the leading calls reached.
    reached: dict[int, Dfa] = {}
    waiting = [start]
    while waiting:
        rule = waiting.pop()
        if rule not in reached:
            reached[rule] = changed[rule]
            waiting += called_rules(changed[rule])
    return reached


def without_leading_calls(rule: int, component: Iterable[int], automata: RuleAutomata) -> Dfa:
    """Return the automaton of a rule, changed to begin with no call of the rules of its component.

    Leading calls are turned round: instead of calling ``b`` first, the automaton reads a text of
    ``b`` that begins with no call, and continues where the call would have returned to. A *hub* is
    the place after a whole text of a member; from there it continues after each leading call of it.
    ``rule`` is one of the ``component``. Raises LimitExceededError if it grows too large.
    """
    nfa = Nfa()
    start = nfa.add_states()
    hubs = {member: nfa.add_states() for member in component}
    for member, hub in hubs.items():
        dfa = automata[member]
        first = paste(nfa, dfa, dfa.classes)
        # The copy's own start is not entered: its moves leave from the start, or from a hub.
        for chars, target in zip(dfa.classes, dfa.next[0].tolist(), strict=True):
            if target == DEAD:
                continue
            # A leading call of a member: the copy continues after its text, which ends in its hub.
            for callee in numbers_in(chars, Kind.CALL):
                if callee in hubs:
                    nfa.empties.add(hubs[callee], first + target)
            if kept := without_calls(chars, hubs.keys()):
                nfa.add_move(start, kept, first + target)
        for end in np.nonzero(dfa.accepting)[0].tolist():
            nfa.empties.add(first + end, hub)
    nfa.final = hubs[rule]
    return determined(nfa)


def without_ending_calls(rule: int, dfa: Dfa) -> Dfa:
    """Return the automaton of a rule without the calls of itself that end it.

    If more may follow such a call, it is left out only if that changes nothing: what follows it
    is then what might follow inside it. So ``a: a a | "x"`` is the plain automaton of x+. Calls
    stay if the automaton would grow much without them. Raises LimitExceededError if that
    comparison is too large.
    """
    if rule not in called_rules(dfa):
        return dfa
    is_last: NDArray[np.bool_] = dfa.accepting & (dfa.next == DEAD).all(axis=1)
    looped = _looped(rule, dfa, is_last)
    dfa = dfa if looped is None else looped
    accepting = dfa.accepting
    if all(not accepting[to] for _, callee, to in edges_over(dfa, Kind.CALL) if callee == rule):
        return dfa
    looped = _looped(rule, dfa, accepting)
    if looped is None:
        return dfa
    # The loop is right if one more level of the rule inside it brings no new text.
    again = substituted(dfa, {rule}, {rule: looped}, chosen=lambda target: bool(accepting[target]))
    return looped if again is not None and _equal(looped, again) else dfa


def _looped(rule: int, dfa: Dfa, is_end: NDArray[np.bool_]) -> Dfa | None:
    """Return the automaton; a way to its start replaces its calls of itself that lead to an end.

    ``is_end``, bool ``[states]``, says which states count as ends here. Returns the automaton
    itself if no such call leads to one, and ``None`` if it would grow much; raises
    LimitExceededError past MAX_NFA_STATES.
    """
    edges = [(source, to) for source, callee, to in edges_over(dfa, Kind.CALL) if callee == rule]
    if not any(is_end[target] for _, target in edges):
        return dfa
    nfa, first = paste_without(dfa, {rule})
    for source, target in edges:
        if is_end[target]:
            nfa.empties.add(first + source, first)
        else:
            nfa.add_move(first + source, symbol_set(Kind.CALL, [rule]), first + target)
    return determined_if_small(nfa)


def _equal(left: Dfa, right: Dfa) -> bool:
    """Return whether two automata have the same texts over symbols.

    Raises LimitExceededError if their product is too large, see ``combine``.
    """
    differing = combine(
        [left, right], lambda labels: 0 if (labels[0] == DEAD) != (labels[1] == DEAD) else DEAD
    )
    return not len(differing)
