"""Removes unproductive rules, which have no text, and the empty text of nullable rules.

Both sets of rules are least fixed points over the calls. Unproductive rules are dropped, with all
calls of them. Parallel to each call of a nullable rule an epsilon move is added, and the rule loses
the empty text. Afterwards every call reads at least one byte, so no rule can call itself for ever
without reading one::

    start: a "x"     a: "y" |      ->      start: a "x" | "x"     a: "y"
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from guided.errors import UnsatisfiableError
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    copy_without_calls,
    determinize,
)
from guided.grammar.network.symbols import (
    Kind,
    edges_over,
    has_bytes,
    numbers_in,
)
from guided.regular.dfa import DEAD, Dfa
from guided.regular.reachability import coaccessible
from guided.runtime.work_budget import spend, with_pauses

__all__ = ["ProductiveRules", "nullable_rules", "productive_rules", "remove_empty_texts"]


class ProductiveRules(NamedTuple):
    """Rules that are all productive, and none of them nullable."""

    automata: dict[int, Dfa]
    """By rule; empty if the grammar has no text but the empty one."""
    accepts_empty: bool
    """Whether the grammar also has the empty text."""


def remove_empty_texts(automata: RuleAutomata, start: int) -> ProductiveRules:
    """Return the rules that have a non-empty text, without their empty text.

    They call only each other. Raises UnsatisfiableError if the start rule has no text.
    """
    productive = productive_rules(automata)
    if start not in productive:
        raise UnsatisfiableError(
            "no text satisfies the grammar",
            hint="look for rules that call themselves without a way out, and for bytes that the"
            " model's vocabulary cannot spell",
        )
    nullable = nullable_rules(automata)
    unproductive = automata.keys() - productive
    changed = {
        rule: _remove_empty_text(automata[rule], nullable, unproductive) for rule in productive
    }
    # A rule that had only the empty text has none now, which may leave its callers without one.
    still_productive = productive_rules(changed) if nullable or unproductive else productive
    if start not in still_productive:
        return ProductiveRules({}, accepts_empty=True)
    if still_productive != productive:
        unproductive = automata.keys() - still_productive
        changed = {
            rule: _remove_empty_text(changed[rule], set(), unproductive)
            for rule in still_productive
        }
    return ProductiveRules(changed, start in nullable)


def nullable_rules(automata: RuleAutomata) -> set[int]:
    """Return the rules that have the empty text (nullable nonterminals)."""
    return _least_fixed_point(automata, reads_bytes=False)


def productive_rules(automata: RuleAutomata) -> set[int]:
    """Return the rules that have any text (productive nonterminals)."""
    return _least_fixed_point(automata, reads_bytes=True)


def _least_fixed_point(automata: RuleAutomata, *, reads_bytes: bool) -> set[int]:
    """Return the least set of rules whose automata reach an end by calls of rules in the set.

    With ``reads_bytes`` also by bytes and holes. A rule is examined once, and again after rules
    that it calls were added, until it is found. The order changes only the work: with the rule that
    waits longest first, all that it calls are mostly found before it is examined again.
    """
    callers: dict[int, list[int]] = {}
    for rule, dfa in automata.items():
        for callee in called_rules(dfa):
            callers.setdefault(callee, []).append(rule)
    found: set[int] = set()
    worklist = dict.fromkeys(automata)  # a queue without duplicates
    while worklist:
        rule = next(iter(worklist))
        del worklist[rule]
        if _reaches_end(automata[rule], found, reads_bytes):
            found.add(rule)
            worklist.update(dict.fromkeys(set(callers.get(rule, ())) - found))
    return found


def _reaches_end(dfa: Dfa, rules: Set[int], reads_bytes: bool) -> bool:
    """Return whether calls of ``rules``, with ``reads_bytes`` also bytes and holes, reach an end.

    There are no assertions any more: ``lookarounds`` removes them.
    """
    if not len(dfa):
        return False
    spend(1 + dfa.next.size // 16)
    if dfa.label[0] != DEAD:
        return True
    is_usable = [
        (reads_bytes and (has_bytes(chars) or bool(numbers_in(chars, Kind.HOLE))))
        or any(rule in rules for rule in numbers_in(chars, Kind.CALL))
        for chars in with_pauses(dfa.classes)
    ]
    if not any(is_usable):
        return False
    if all(is_usable):
        return True  # every state of a trimmed automaton reaches an end
    usable_moves = np.where(is_usable, dfa.next, DEAD).astype(np.int32)
    return bool(coaccessible(usable_moves, dfa.accepting)[0])


def _remove_empty_text(dfa: Dfa, nullable: Set[int], unproductive: Set[int]) -> Dfa:
    """Return the automaton without the empty text and without calls of ``unproductive`` rules.

    Calls of ``nullable`` rules become optional. ``dfa`` is not empty, as the rule is productive;
    the result may be. Returns ``dfa`` itself if there is nothing to remove.
    """
    empty_calls = [edge for edge in edges_over(dfa, Kind.CALL) if edge[1] in nullable]
    is_unchanged = not empty_calls and unproductive.isdisjoint(called_rules(dfa))
    if is_unchanged and dfa.label[0] == DEAD:
        return dfa
    nfa, first = copy_without_calls(dfa, unproductive)
    for source, _, target in empty_calls:
        nfa.epsilons.add(first + source, first + target)
    changed = determinize(nfa)
    if not len(changed) or changed.label[0] == DEAD:
        return changed
    # The start accepts, and moves may lead back to it, so a copy that does not accept becomes the
    # start.
    label = np.concatenate([[DEAD], changed.label]).astype(np.int32)
    moves = np.concatenate([changed.next[:1], changed.next])
    moves = np.where(moves == DEAD, DEAD, moves + 1).astype(np.int32)
    # 0 is the only label; relabelling minimises the automaton again.
    return Dfa(changed.classes, moves, label).relabel({0: 0})
