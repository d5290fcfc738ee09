"""Compiles a grammar to a network, in passes that each preserve the language.

====  ==========================================  =================================================
pass  from → to                                   module
====  ==========================================  =================================================
1     bodies → automata of rules over symbols     ``expanded_rules``, ``rule_expressions``
2     assertions are removed, by a product        ``lookarounds``
3     unproductive rules, empty texts removed     ``empty_texts``
4     calls inlined if the rule stays small       ``inlining``
5     left recursion becomes loops                ``recursion``
6     automata → tables over all states           ``layout``
====  ==========================================  =================================================

The order matters: look-arounds refer to the rules as written; inlining needs rules that all read a
byte; and removing left recursion is cheaper for the few rules that inlining leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Final, NamedTuple

from guided.errors import LimitExceededError
from guided.grammar.context_free import Body, Call, ContextFreeGrammar
from guided.grammar.network.empty_texts import ProductiveRules, remove_empty_texts
from guided.grammar.network.expanded_rules import choose_expanded_rules, reachable_rules
from guided.grammar.network.inlining import LITTLE_GROWTH, inline_calls
from guided.grammar.network.layout import network_from_automata
from guided.grammar.network.lookarounds import Assertion, remove_assertions
from guided.grammar.network.network import HoleText, Network
from guided.grammar.network.recursion import remove_left_recursion
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    determinize,
    determinize_if_small,
    substitute_calls,
)
from guided.grammar.network.rule_expressions import RuleExpressions
from guided.grammar.network.symbols import MAX_HOLES, MAX_RULES
from guided.regular.dfa import Dfa
from guided.regular.expression import Concat
from guided.regular.nfa import Nfa, nfa_from_regular
from guided.runtime.work_budget import spend

__all__ = [
    "START",
    "GrammarAutomata",
    "automata_from_grammar",
    "check_has_text",
    "network_from_grammar",
    "simplify",
]

START: Final = 0
"""The rule of the whole text: a call of the start rule, and what may be ignored after it."""


class GrammarAutomata(NamedTuple):
    """The automata of a grammar's rules and large terminals, and its assertions."""

    automata: RuleAutomata
    terminals: RuleAutomata
    """Large terminals, which are called like rules but call nothing; numbered after the rules."""
    assertions: tuple[Assertion, ...]
    """The condition of each assertion in the automata, by number."""


def network_from_grammar(
    grammar: ContextFreeGrammar,
    unavailable_bytes: Collection[int] = (),
    holes: Sequence[HoleText] = (),
) -> Network:
    """Return the network of a grammar, without texts that need one of the ``unavailable_bytes``.

    These are bytes that the vocabulary cannot spell. ``holes`` describes by number the texts that
    fill the grammar's holes. Raises UnsatisfiableError if no text is left, UnsupportedFeatureError
    if a look-around would see into a hole, and LimitExceededError.
    """
    if len(holes) > MAX_HOLES:
        raise LimitExceededError(
            f"there are {len(holes)} schemas, more than {MAX_HOLES}",
            limit=MAX_HOLES,
            field="constraint",
            hint="say with one schema what is alike",
        )
    productive, callable_terminals = _productive_rules(grammar, unavailable_bytes, holes)
    if not productive.automata:
        # Without the holes, as rule 0 would be the first of them.
        return network_from_automata({}, productive.accepts_empty, ())
    simplified = simplify(productive.automata, callable_terminals)
    return network_from_automata(simplified, productive.accepts_empty, holes)


def check_has_text(
    grammar: ContextFreeGrammar,
    unavailable_bytes: Collection[int],
    holes: Sequence[HoleText] = (),
) -> None:
    """Raise what the first passes of ``network_from_grammar`` raise, so if there is no text."""
    _productive_rules(grammar, unavailable_bytes, holes)


def _productive_rules(
    grammar: ContextFreeGrammar, unavailable_bytes: Collection[int], holes: Sequence[HoleText]
) -> tuple[ProductiveRules, Set[int]]:
    """Return the result of the first three passes, and which rules are terminals."""
    rules = automata_from_grammar(grammar, unavailable_bytes)
    automata: RuleAutomata = {**rules.automata, **rules.terminals}
    callable_terminals: Set[int] = rules.terminals.keys()
    if rules.assertions:
        automata = remove_assertions(_inline_terminals(rules), rules.assertions, holes)
        callable_terminals = set()  # the product has split the automata of terminals too
    return remove_empty_texts(automata, START), callable_terminals


def simplify(automata: RuleAutomata, terminals: Set[int] = frozenset()) -> dict[int, Dfa]:
    """Return the automata with calls inlined where possible, and without left recursion.

    The given ones must not accept the empty text; ``terminals`` are those of them that call
    nothing. Raises LimitExceededError if a second try, which inlines less, is also too large.
    """
    try:
        return remove_left_recursion(inline_calls(automata, START, terminals), START)
    except LimitExceededError:
        # Removing left recursion copies rules, so try again with smaller ones. If the work for the
        # constraint is used up, this raises again.
        return remove_left_recursion(inline_calls(automata, START, terminals, LITTLE_GROWTH), START)


def automata_from_grammar(
    grammar: ContextFreeGrammar, unavailable_bytes: Collection[int] = ()
) -> GrammarAutomata:
    """Return the automata of the reachable rules of a grammar; assertions are symbols in them.

    Rules are numbered from START + 1 on in the order of ``reachable_rules``; those that are
    expanded in their callers have no automaton. Raises LimitExceededError.
    """
    reached = reachable_rules(grammar)
    if len(reached) >= MAX_RULES:
        raise LimitExceededError(
            f"the grammar has more than {MAX_RULES} rules", limit=MAX_RULES, field="constraint"
        )
    numbers = {name: number for number, name in enumerate(reached, START + 1)}
    expressions = RuleExpressions(numbers, grammar.ignored, unavailable_bytes)
    expanded = choose_expanded_rules(grammar, reached)
    automata = None
    if expanded:
        automata = _build_automata(grammar, expressions, numbers, expanded, determinize_if_small)
    if automata is None:
        # A rule grew much, most likely by expansion, so nothing is expanded now. Terminals of the
        # first try that are not called any more are dropped later, as unreachable rules are.
        automata = _build_automata(grammar, expressions, numbers, {}, determinize)
    # ``determinize`` returns an automaton or raises at a limit; it never returns ``None``.
    assert automata is not None, "a limit raises"
    return GrammarAutomata(automata, expressions.terminals, tuple(expressions.assertions))


def _build_automata(
    grammar: ContextFreeGrammar,
    expressions: RuleExpressions,
    numbers: Mapping[str, int],
    expanded: Mapping[str, Body],
    determinizer: Callable[[Nfa], Dfa | None],
) -> dict[int, Dfa] | None:
    """Return the automata of all rules but the ``expanded`` ones, which their callers contain.

    ``determinizer`` makes an automaton deterministic, or returns ``None``; then so does this.
    """
    bodies: dict[int, Body] = {START: Call(grammar.start)}
    bodies |= {
        number: grammar.rules[name] for name, number in numbers.items() if name not in expanded
    }
    automata: dict[int, Dfa] = {}
    for number, body in bodies.items():
        spend(300)
        expression = expressions.build(body, expanded)
        if number == START:
            expression = Concat((expression, expressions.ignored_texts))
        dfa = determinizer(nfa_from_regular(expression))
        if dfa is None:
            return None
        automata[number] = dfa
    return automata


def _inline_terminals(rules: GrammarAutomata) -> RuleAutomata:
    """Return all automata, with the calls of terminals in each rule replaced by copies.

    A rule that would grow much keeps all its calls (``substitute_calls``), so terminals stay in the
    result. This gives the product with the assertions fewer rules. Raises LimitExceededError.
    """
    automata = dict(rules.automata)
    for number, dfa in [*automata.items()]:
        called = called_rules(dfa) & rules.terminals.keys()
        inlined = substitute_calls(dfa, called, rules.terminals) if called else None
        automata[number] = dfa if inlined is None else inlined
    return automata | dict(rules.terminals)
