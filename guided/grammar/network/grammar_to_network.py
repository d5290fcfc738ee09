"""A grammar as a network, in passes that each keep the language.

====  ==========================================  =================================================
pass  from → to                                   module
====  ==========================================  =================================================
1     bodies → automata of rules over symbols     here, ``written_out`` and ``rule_expressions``
2     assertions are worked into the automata     ``lookarounds``
3     rules without text go, and the empty text   ``empty_texts``
4     callers take rules in if that is small   ``inlining``
5     left recursion becomes loops                ``recursion``
6     automata → tables of states numbered through ``layout``
====  ==========================================  =================================================

The order matters: look-arounds see the text of rules as it is written; inlining relies on rules
that all read a byte; and left recursion is removed from the few rules that inlining leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Final, NamedTuple

from guided.errors import LimitExceededError
from guided.grammar.context_free import Body, Call, ContextFreeGrammar
from guided.grammar.network.empty_texts import without_empty_texts
from guided.grammar.network.inlining import LITTLE_GROWTH, inlined
from guided.grammar.network.layout import network_from_automata
from guided.grammar.network.lookarounds import Assertion, without_assertions
from guided.grammar.network.network import HoleText, Network
from guided.grammar.network.recursion import without_left_recursion
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    determined,
    determined_if_small,
    substituted,
)
from guided.grammar.network.rule_expressions import RuleExpressions
from guided.grammar.network.symbols import MAX_HOLES, MAX_RULES
from guided.grammar.network.written_out import reached_rules, written_out
from guided.regular.dfa import Dfa
from guided.regular.expression import Concat
from guided.regular.nfa import Nfa, nfa_from_regular
from guided.runtime.fuel import spend

__all__ = ["START", "Rules", "network_from_grammar", "rules_of", "simplified"]

START: Final = 0
"""The rule of the whole text: the start rule of the grammar, and what may be ignored after it."""


class Rules(NamedTuple):
    """The automata that the bodies of a grammar's rules become."""

    automata: RuleAutomata
    terminals: RuleAutomata
    """Large terminals, which are called like rules and call nothing; numbered after the rules."""
    assertions: tuple[Assertion, ...]
    """By number the conditions of the assertions in the automata."""


def network_from_grammar(
    grammar: ContextFreeGrammar, missing: Collection[int] = (), holes: Sequence[HoleText] = ()
) -> Network:
    """Return the network of a grammar's texts that need no byte in ``missing``.

    ``holes`` describes by number the texts that fill the grammar's holes. Raises
    UnsatisfiableError if no text is left, UnsupportedFeatureError if a look-around would see
    into a hole, and LimitExceededError.
    """
    if len(holes) > MAX_HOLES:
        raise LimitExceededError(
            f"there are {len(holes)} schemas, more than {MAX_HOLES}",
            limit=MAX_HOLES,
            field="constraint",
            hint="say with one schema what is alike",
        )
    rules = rules_of(grammar, missing)
    automata: RuleAutomata = {**rules.automata, **rules.terminals}
    callable_terminals: Set[int] = rules.terminals.keys()
    if rules.assertions:
        spelled_out = _with_terminals_spelled_out(rules)
        automata = without_assertions(spelled_out, rules.assertions, holes)
        callable_terminals = set()  # Look-arounds split the automata of terminals too.
    productive = without_empty_texts(automata, START)
    if not productive.automata:
        return network_from_automata({}, productive.accepts_nothing, ())
    left = simplified(productive.automata, callable_terminals)
    return network_from_automata(left, productive.accepts_nothing, holes)


def simplified(automata: RuleAutomata, terminals: Set[int] = frozenset()) -> dict[int, Dfa]:
    """Return the automata with what need not be called taken in, without left recursion.

    None of those given accepts the empty text, and ``terminals`` are those of them that call
    nothing. Raises LimitExceededError if a second try, which takes less in, is also too large.
    """
    try:
        return without_left_recursion(inlined(automata, START, terminals), START)
    except LimitExceededError:
        # Turning large left-recursive rules inside out copies them: try again with small ones.
        return without_left_recursion(inlined(automata, START, terminals, LITTLE_GROWTH), START)


def rules_of(grammar: ContextFreeGrammar, missing: Collection[int] = ()) -> Rules:
    """Return the automata of the rules that the start rule leads to; assertions are symbols.

    Rules are numbered from START + 1 on in the order of ``reached_rules``; numbers of rules that
    are written out in others are left out. Raises LimitExceededError.
    """
    reached = reached_rules(grammar)
    if len(reached) >= MAX_RULES:
        raise LimitExceededError(
            f"the grammar has more than {MAX_RULES} rules", limit=MAX_RULES, field="constraint"
        )
    numbers = {name: number for number, name in enumerate(reached, START + 1)}
    expressions = RuleExpressions(numbers, grammar.ignored, missing)
    replaced = written_out(grammar, reached)
    automata = None
    if replaced:
        automata = _automata(grammar, expressions, numbers, replaced, determined_if_small)
    if automata is None:
        # A rule grew too much with what is written out in it: all are called instead. Terminals of
        # the first try that are not called now drop out with the rules that nothing calls.
        automata = _automata(grammar, expressions, numbers, {}, determined)
    # ``determined`` returns an automaton or raises at a limit; it never returns ``None``.
    assert automata is not None, "a limit raises"
    return Rules(automata, expressions.terminals, tuple(expressions.assertions))


def _automata(
    grammar: ContextFreeGrammar,
    expressions: RuleExpressions,
    numbers: Mapping[str, int],
    replaced: Mapping[str, Body],
    made: Callable[[Nfa], Dfa | None],
) -> dict[int, Dfa] | None:
    """Return the automata of all rules but ``replaced`` ones, which are written out in callers.

    ``made`` turns an expression's automaton into a deterministic one; ``None`` if it refuses one.
    """
    bodies: dict[int, Body] = {START: Call(grammar.start)}
    bodies |= {
        number: grammar.rules[name] for name, number in numbers.items() if name not in replaced
    }
    automata: dict[int, Dfa] = {}
    for number, body in bodies.items():
        spend(300)
        expression = expressions.of(body, replaced)
        if number == START:
            expression = Concat((expression, expressions.blank))
        dfa = made(nfa_from_regular(expression))
        if dfa is None:
            return None
        automata[number] = dfa
    return automata


def _with_terminals_spelled_out(rules: Rules) -> RuleAutomata:
    """Return all automata, with terminals written out in rules where that stays small.

    So the product with the assertions needs fewer rules; large terminals are still called.
    """
    automata = dict(rules.automata)
    for number, dfa in [*automata.items()]:
        called = called_rules(dfa) & rules.terminals.keys()
        spelled = substituted(dfa, called, rules.terminals) if called else None
        automata[number] = dfa if spelled is None else spelled
    return automata | dict(rules.terminals)
