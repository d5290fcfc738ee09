"""Operations on the automata of rules, which all passes use.

Their moves are over symbols: bytes, assertions, calls and holes (``symbols``). Passes replace only
calls by other moves.
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
from guided.runtime.work_budget import spend, with_pauses

__all__ = [
    "RuleAutomata",
    "called_rules",
    "copy_states",
    "copy_without_calls",
    "determinize",
    "determinize_if_small",
    "first_calls",
    "substitute_calls",
]

RuleAutomata: TypeAlias = Mapping[int, Dfa]
"""The automaton of each rule, by number; rule 0 is the whole text."""

_MAX_STATES: Final = 50_000
"""The most states of a rule's automaton before it is minimised."""
_SPARE_STATES: Final = 1_000
"""States that an automaton may gain in ``determinize_if_small``."""
_NO_RULES: Final[frozenset[int]] = frozenset()
_NOTHING: Final[Mapping[int, Set[int]]] = {}


def called_rules(dfa: Dfa) -> set[int]:
    """Return the rules that an automaton calls."""
    return {rule for chars in with_pauses(dfa.classes) for rule in numbers_in(chars, Kind.CALL)}


def first_calls(dfa: Dfa) -> set[int]:
    """Return the rules that an automaton calls in its start state."""
    return {rule for source, rule, _ in edges_over(dfa, Kind.CALL) if source == 0}


def determinize(nfa: Nfa) -> Dfa:
    """Return the minimal deterministic automaton; raises LimitExceededError if it is too large."""
    dfa = dfa_from_nfa(nfa, max_states=_MAX_STATES)
    if dfa is None:
        raise LimitExceededError(
            f"the automaton of a rule needs more than {_MAX_STATES} states",
            limit=_MAX_STATES,
            field="constraint",
            hint="let its alternatives begin differently, or lower the bounds of repeats",
        )
    return dfa


def determinize_if_small(nfa: Nfa) -> Dfa | None:
    """Return the minimal deterministic automaton, or ``None`` if it grows much.

    For optional changes: LimitExceededError is raised only if the work for the whole constraint is
    used up, not for the size of the automaton.
    """
    try:
        return dfa_from_nfa(nfa, max_states=nfa.count + _SPARE_STATES)
    except LimitExceededError:
        spend(0)  # raises again where no work is left
        return None


def copy_states(nfa: Nfa, dfa: Dfa, sets: Sequence[CodePoints]) -> int:
    """Copy the states of ``dfa`` into ``nfa``; returns the number of the first copy, the start.

    The other copies follow in the same order. ``sets`` has for each class of ``dfa`` the symbols
    whose moves are copied. Acceptance is not copied: the caller adds the moves from those states.
    """
    first = nfa.add_states(len(dfa))
    nfa.add_moves(dfa.moves, first, sets)
    return first


def copy_without_calls(dfa: Dfa, rules: Set[int]) -> tuple[Nfa, int]:
    """Return a copy of ``dfa`` without calls of ``rules``, and its first copied state.

    The caller adds moves that replace the calls. The start of the copy is a separate state, so that
    moves may lead back to the first copied state; the states of ``dfa`` follow in their order.
    Those that accept lead to ``nfa.final``.
    """
    nfa = Nfa()
    start = nfa.add_states()
    first = copy_states(nfa, dfa, [without_calls(chars, rules) for chars in dfa.classes])
    nfa.epsilons.add(start, first)
    nfa.final = nfa.add_states()
    for end in np.nonzero(dfa.accepting)[0].tolist():
        nfa.epsilons.add(first + end, nfa.final)
    return nfa, first


def substitute_calls(
    dfa: Dfa,
    replaced: Set[int],
    bodies: RuleAutomata,
    nested: Mapping[int, Set[int]] = _NOTHING,
    is_replaced: Callable[[int], bool] = lambda _: True,
) -> Dfa | None:
    """Return the automaton with calls of ``replaced`` rules replaced by their automata.

    ``is_replaced`` decides by the target, a state of ``dfa``, whether a call is replaced at all.
    ``nested`` has by rule the rules whose calls are replaced inside it in turn; it must be acyclic.
    ``None`` if the automaton would grow much; raises LimitExceededError past MAX_NFA_STATES.
    """
    nfa, start = copy_without_calls(dfa, replaced)
    # The first state of each copy, by rule and the state that its calls return to.
    copies: dict[tuple[int, int], int] = {}
    # By rule the classes of its automaton without the calls that are replaced in it.
    kept: dict[int, list[CodePoints]] = {}
    # First state, automaton and replaced rules of each copy whose calls are to be examined.
    worklist = [(start, dfa, replaced)]
    for first, caller, inner in worklist:
        for source, rule, target in edges_over(caller, Kind.CALL):
            if rule not in inner:
                continue
            if caller is dfa and not is_replaced(target):
                nfa.add_move(first + source, symbol_set(Kind.CALL, [rule]), first + target)
                continue
            body = bodies[rule]
            # Calls that return to the same state share a copy.
            copy = copies.get((rule, first + target))
            if copy is None:
                further = nested.get(rule, _NO_RULES)
                sets = kept.get(rule)
                if sets is None:
                    sets = kept[rule] = [without_calls(chars, further) for chars in body.classes]
                copy = copies[rule, first + target] = copy_states(nfa, body, sets)
                worklist.append((copy, body, further))
                for end in np.nonzero(body.accepting)[0].tolist():
                    nfa.epsilons.add(copy + end, first + target)
            nfa.epsilons.add(first + source, copy)
    return determinize_if_small(nfa)
