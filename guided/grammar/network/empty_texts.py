"""Rules without any text, and the empty text of others: both are removed from a network.

Which rules have a text, and which have the empty one, are least fixed points over the calls. Rules
without any text are dropped, with all calls of them. Beside a call of a rule that has the empty
text an empty move is added, and the rule itself loses that text: afterwards every call reads a
byte, so no rule can call itself for ever without one::

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
    determined,
    paste_without,
)
from guided.grammar.network.symbols import (
    Kind,
    edges_over,
    has_bytes,
    numbers_in,
)
from guided.regular.dfa import DEAD, Dfa
from guided.regular.reachability import reaches_end
from guided.runtime.fuel import spend, with_pauses

__all__ = ["Productive", "nullable_rules", "productive_rules", "without_empty_texts"]


class Productive(NamedTuple):
    """Rules that have a text each, none of them the empty one."""

    automata: dict[int, Dfa]
    """Empty if the whole has no text but the empty one."""
    accepts_nothing: bool
    """Whether the empty text is also a text of the whole."""


def without_empty_texts(automata: RuleAutomata, start: int) -> Productive:
    """Return the rules that have a text besides the empty one, without the empty one.

    They call no other rules. Raises UnsatisfiableError if the start rule has no text.
    """
    productive = productive_rules(automata)
    if start not in productive:
        raise UnsatisfiableError(
            "no text satisfies the grammar",
            hint="look for rules that call themselves without a way out, and for bytes that the"
            " model's vocabulary cannot spell",
        )
    nullable = nullable_rules(automata)
    dead = automata.keys() - productive
    kept = {rule: _without_empty_text(automata[rule], nullable, dead) for rule in productive}
    # A rule that had only the empty text has none now, and may have been the way out of others.
    alive = productive_rules(kept) if nullable or dead else productive
    if start not in alive:
        return Productive({}, accepts_nothing=True)
    if alive != productive:
        dead = automata.keys() - alive
        kept = {rule: _without_empty_text(kept[rule], set(), dead) for rule in alive}
    return Productive(kept, start in nullable)


def nullable_rules(automata: RuleAutomata) -> set[int]:
    """Return the rules that have the empty text."""
    return _least_fixed_point(automata, reads_bytes=False)


def productive_rules(automata: RuleAutomata) -> set[int]:
    """Return the rules that have any text."""
    return _least_fixed_point(automata, reads_bytes=True)


def _least_fixed_point(automata: RuleAutomata, *, reads_bytes: bool) -> set[int]:
    """Return the least set of rules whose automata reach an end by calls of rules in the set.

    With ``reads_bytes`` also by bytes and holes. A rule is examined once, and again whenever a rule
    that it calls was found.
    """
    callers: dict[int, list[int]] = {}
    for rule, dfa in automata.items():
        for callee in called_rules(dfa):
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


def _reaches_end(dfa: Dfa, rules: Set[int], reads_bytes: bool) -> bool:
    """Return whether calls of ``rules`` alone reach an end; with ``reads_bytes`` also bytes.

    Assertions are never taken: ``lookarounds`` has left none.
    """
    if not len(dfa):
        return False
    spend(1 + dfa.next.size // 16)
    if dfa.label[0] != DEAD:
        return True
    taken = [
        (reads_bytes and (has_bytes(chars) or bool(numbers_in(chars, Kind.HOLE))))
        or any(rule in rules for rule in numbers_in(chars, Kind.CALL))
        for chars in with_pauses(dfa.classes)
    ]
    if all(taken) or not any(taken):
        # As it is trimmed, all of its moves together reach an end, and none of them does not.
        return any(taken)
    return reaches_end(dfa.next, dfa.accepting, np.array(taken, dtype=np.bool_))


def _without_empty_text(dfa: Dfa, nullable: Set[int], dead: Set[int]) -> Dfa:
    """Return the automaton without the empty text and without calls of ``dead`` rules.

    Calls of ``nullable`` rules may be skipped. Returns the automaton itself if nothing changes.
    """
    empty_calls = [edge for edge in edges_over(dfa, Kind.CALL) if edge[1] in nullable]
    if not empty_calls and not dead and dfa.label[0] == DEAD:
        return dfa
    nfa, first = paste_without(dfa, dead)
    for source, _, target in empty_calls:
        nfa.empties.add(first + source, first + target)
    made = determined(nfa)
    if not len(made) or made.label[0] == DEAD:
        return made
    # Texts may lead back to the start, so it stays; a copy that does not accept comes before it.
    label = np.concatenate([[DEAD], made.label]).astype(np.int32)
    moves = np.concatenate([made.next[:1], made.next])
    moves = np.where(moves == DEAD, DEAD, moves + 1).astype(np.int32)
    # 0 is the only label; relabelling minimises the automaton again.
    return Dfa(made.classes, moves, label).relabelled({0: 0})
