"""Removes left recursion, and calls that end their own rule: neither needs a stack.

No automaton here accepts the empty text.

A rule that *begins* with a call of itself would be called again and again before a byte is read.
The rules of a component that begin with calls of each other are read bottom-up, as in a left-corner
parser: a text begins with a part of some member that calls no member first. Where a member is
complete is its *hub*. From there its text continues as the leading call of a larger part::

    sum: sum "+" NUMBER | NUMBER   ->   start -NUMBER-> hub    hub -"+" NUMBER-> hub    end: hub

A call of a rule that *ends* the same rule is replaced by a move to its start::

    list: item "," list | item     ->   start -item "," -> start    start -item-> end
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from guided.grammar.network.components import strongly_connected_components
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    copy_states,
    copy_without_calls,
    determinize,
    determinize_if_small,
    first_calls,
    substitute_calls,
)
from guided.grammar.network.symbols import Kind, edges_over, numbers_in, symbol_set, without_calls
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.nfa import Nfa

__all__ = ["remove_ending_calls", "remove_leading_calls", "remove_left_recursion"]


def remove_left_recursion(automata: RuleAutomata, start: int) -> dict[int, Dfa]:
    """Return the automata of the rules reachable from the start, without left recursion.

    Raises LimitExceededError if one grows too large by the copies in it.
    """
    leading = {rule: first_calls(dfa) for rule, dfa in automata.items()}
    members_of: dict[int, list[int]] = {}
    for component in strongly_connected_components(leading):
        members = sorted(component)
        if len(members) > 1 or members[0] in leading[members[0]]:
            members_of |= dict.fromkeys(members, members)
    # Rules that only leading calls led to are not reachable any more. The others of a component
    # get an automaton with copies of all its members.
    changed: dict[int, Dfa] = {}
    worklist = [start]
    while worklist:
        rule = worklist.pop()
        if rule not in changed:
            dfa = automata[rule]
            if rule in members_of:
                dfa = remove_leading_calls(rule, members_of[rule], automata)
            changed[rule] = dfa
            worklist += called_rules(dfa)
    return changed


def remove_leading_calls(rule: int, component: Iterable[int], automata: RuleAutomata) -> Dfa:
    """Return the automaton of a rule without leading calls of the rules in its component.

    Instead of calling a member first, the automaton reads a text of it that begins with no call of
    a member, and continues where the call would return to. The *hub* of a member is the state
    after a whole text of it; moves lead from there to where its leading calls return to. ``rule``
    is one of the ``component``. Raises LimitExceededError if it grows too large.
    """
    nfa = Nfa()
    start = nfa.add_states()
    hubs = {member: nfa.add_states() for member in component}
    for member, hub in hubs.items():
        dfa = automata[member]
        first = copy_states(nfa, dfa, dfa.classes)
        # The moves of the member's start are repeated from ``start``, or from a hub where they read
        # a member. Moves inside the copy may lead back to its start; calls from there do not lead.
        for chars, target in zip(dfa.classes, dfa.next[0].tolist(), strict=True):
            if target == DEAD:
                continue
            # A leading call of a member: continue from its hub where the call returns to.
            for callee in numbers_in(chars, Kind.CALL):
                if callee in hubs:
                    nfa.epsilons.add(hubs[callee], first + target)
            if kept := without_calls(chars, hubs.keys()):
                nfa.add_move(start, kept, first + target)
        for end in np.nonzero(dfa.accepting)[0].tolist():
            nfa.epsilons.add(first + end, hub)
    nfa.final = hubs[rule]
    return determinize(nfa)


def remove_ending_calls(rule: int, dfa: Dfa) -> Dfa:
    """Return the automaton of a rule with calls of itself at its end replaced by loops.

    A call that may end the rule, or be followed by more, is replaced only if a comparison of
    automata shows that the language stays the same: so ``a: a a | "x"`` becomes x+. Calls stay if
    the automaton would grow much. Raises LimitExceededError if the comparison is too large.
    """
    if rule not in called_rules(dfa):
        return dfa
    is_last: NDArray[np.bool_] = dfa.accepting & (dfa.next == DEAD).all(axis=1)
    looped = _loop_ending_calls(rule, dfa, is_last)
    dfa = dfa if looped is None else looped
    accepting = dfa.accepting
    if all(not accepting[to] for _, callee, to in edges_over(dfa, Kind.CALL) if callee == rule):
        return dfa
    looped = _loop_ending_calls(rule, dfa, accepting)
    if looped is None:
        return dfa
    # The loop is right if substituting the looped automaton for the calls adds no new text.
    again = substitute_calls(
        dfa, {rule}, {rule: looped}, is_replaced=lambda target: bool(accepting[target])
    )
    return looped if again is not None and _have_same_texts(looped, again) else dfa


def _loop_ending_calls(rule: int, dfa: Dfa, is_end: NDArray[np.bool_]) -> Dfa | None:
    """Return the automaton with calls of itself that lead to an end replaced by moves to its start.

    ``is_end``, bool ``[states]``, says which states count as ends here. Returns ``dfa`` itself if
    no such call leads to one, and ``None`` if it would grow much; raises LimitExceededError past
    MAX_NFA_STATES.
    """
    edges = [(source, to) for source, callee, to in edges_over(dfa, Kind.CALL) if callee == rule]
    if not any(is_end[target] for _, target in edges):
        return dfa
    nfa, first = copy_without_calls(dfa, {rule})
    for source, target in edges:
        if is_end[target]:
            nfa.epsilons.add(first + source, first)
        else:
            nfa.add_move(first + source, symbol_set(Kind.CALL, [rule]), first + target)
    return determinize_if_small(nfa)


def _have_same_texts(left: Dfa, right: Dfa) -> bool:
    """Return whether two automata have the same language over symbols.

    Raises LimitExceededError if their product is too large, see ``combine``.
    """
    differing = combine(
        [left, right], lambda labels: 0 if (labels[0] == DEAD) != (labels[1] == DEAD) else DEAD
    )
    return not len(differing)
