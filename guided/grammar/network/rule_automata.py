"""Automata of rules over symbols: what all passes over them do with one or several of them.

In no pass does an automaton read text: a move is over a byte, an assertion, a call or a hole
(``symbols``). Calls are the only moves that the passes replace by others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, TypeAlias

import numpy as np

from guided.errors import LimitExceededError
from guided.grammar.network.symbols import Kind, edges_over, numbers_in, symbol_set, without_calls
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import Dfa, dfa_from_nfa
from guided.regular.nfa import Nfa
from guided.runtime.fuel import spend, with_pauses

__all__ = [
    "RuleAutomata",
    "called_rules",
    "determined",
    "determined_if_small",
    "first_calls",
    "paste",
    "paste_without",
    "substituted",
]

RuleAutomata: TypeAlias = Mapping[int, Dfa]
"""By the number of a rule. Rule 0 is the whole text, and no number is used for two rules."""

_MAX_DETERMINED: Final = 50_000
"""States of a rule's automaton, before equal ones merge."""
_SPARE_STATES: Final = 1_000
"""States by which an automaton may grow when it is made deterministic where that is optional."""
_NO_RULES: Final[frozenset[int]] = frozenset()
_NOTHING: Final[Mapping[int, Set[int]]] = {}


def called_rules(dfa: Dfa) -> set[int]:
    """Return the rules that an automaton calls."""
    return {rule for chars in with_pauses(dfa.classes) for rule in numbers_in(chars, Kind.CALL)}


def first_calls(dfa: Dfa) -> set[int]:
    """Return the rules that an automaton calls before it reads a byte."""
    return {rule for source, rule, _ in edges_over(dfa, Kind.CALL) if source == 0}


def determined(nfa: Nfa) -> Dfa:
    """Return a rule's deterministic automaton; raises LimitExceededError if it is too large."""
    dfa = dfa_from_nfa(nfa, most=_MAX_DETERMINED)
    if dfa is None:
        raise LimitExceededError(
            f"the automaton of a rule needs more than {_MAX_DETERMINED} states",
            limit=_MAX_DETERMINED,
            field="constraint",
            hint="let its alternatives begin differently, or lower the bounds of repeats",
        )
    return dfa


def determined_if_small(nfa: Nfa) -> Dfa | None:
    """Return the deterministic automaton, ``None`` if it grows much.

    For optional changes: here a limit on the automaton gives ``None``, so LimitExceededError is
    raised only when the work for the whole constraint is used up.
    """
    try:
        return dfa_from_nfa(nfa, most=nfa.count + _SPARE_STATES)
    except LimitExceededError:
        spend(0)  # raises again where no work is left
        return None


def paste(nfa: Nfa, dfa: Dfa, sets: Sequence[CodePoints]) -> int:
    """Copy the states of ``dfa`` with its moves on ``sets``, a part of each of its classes.

    Returns the first of the copies, which is that of the start; the others follow in their order.
    Acceptance is not copied: the caller adds what follows states that accept.
    """
    first = nfa.add_states(len(dfa))
    nfa.paste(dfa.moves, first, sets)
    return first


def paste_without(dfa: Dfa, rules: Set[int]) -> tuple[Nfa, int]:
    """Return a new automaton without the calls of some rules, and the copy's first state.

    Its start is a separate state, so that moves may be added that lead to the copy's start. The
    states of ``dfa`` are copied in their order; those that accept lead to ``nfa.final``.
    """
    nfa = Nfa()
    start = nfa.add_states()
    first = paste(nfa, dfa, [without_calls(chars, rules) for chars in dfa.classes])
    nfa.empties.add(start, first)
    nfa.final = nfa.add_states()
    for end in np.nonzero(dfa.accepting)[0].tolist():
        nfa.empties.add(first + end, nfa.final)
    return nfa, first


def substituted(
    dfa: Dfa,
    replaced: Set[int],
    bodies: RuleAutomata,
    within: Mapping[int, Set[int]] = _NOTHING,
    chosen: Callable[[int], bool] = lambda _: True,
) -> Dfa | None:
    """Return the automaton with calls of ``replaced`` rules replaced by these rules' automata.

    Only calls whose targets, states of ``dfa``, are ``chosen``; the others stay. ``within`` says
    for these rules which calls are replaced in them, wherever they lead, and so on. It leads in no
    circle, or this would not end. ``None`` if it would grow much; raises LimitExceededError
    past MAX_NFA_STATES.
    """
    nfa, start = paste_without(dfa, replaced)
    # By rule and the state after the call the first state of its copy.
    copies: dict[tuple[int, int], int] = {}
    # By rule its classes without the calls that are replaced in it.
    kept: dict[int, list[CodePoints]] = {}
    # Copies whose calls have not been examined yet; the list grows during the loop.
    pasted = [(start, dfa, replaced)]
    for first, caller, inner in pasted:
        for source, rule, target in edges_over(caller, Kind.CALL):
            if rule not in inner:
                continue
            if caller is dfa and not chosen(target):
                nfa.add_move(first + source, symbol_set(Kind.CALL, [rule]), first + target)
                continue
            body = bodies[rule]
            # One copy serves all calls that lead to the same state.
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
    return determined_if_small(nfa)
