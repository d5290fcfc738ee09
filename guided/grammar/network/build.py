"""A grammar as a network, in steps that each keep the language.

1. Each rule becomes an automaton over letters: bytes, and calls of rules. Rules that are called
   from one place are written out there.
   What terminals ask of the text around them is worked into the automata (``looks``).
2. Rules without any text go, and calls of them. Beside a call of a rule that has the empty text
   comes an empty move, and the rule itself loses that text: a call always reads a byte.
3. Rules are taken in by their callers where that is possible and stays small (``inlining``).
4. Rules that begin with calls of each other are turned inside out (``recursion``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from collections.abc import Sequence as Items
from typing import Final

import numpy as np

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.grammar.context_free import Body, Call, ContextFreeGrammar
from guided.grammar.network.bodies import Bodies
from guided.grammar.network.callers import reached_rules, written_out
from guided.grammar.network.closed_sets import nullable_rules, productive_rules
from guided.grammar.network.components import components
from guided.grammar.network.inlining import LITTLE_GROWTH, inlined
from guided.grammar.network.letters import (
    MAX_HOLES,
    MAX_RULES,
    bytes_by_class,
    call_edges,
    called,
    calls_in,
    determined,
    hole_edges,
    paste,
    simpler,
    without_calls,
)
from guided.grammar.network.moves import lay_moves
from guided.grammar.network.network import CallEdge, HoleText, Network
from guided.grammar.network.recursion import begins_with, substituted, without_leading_calls
from guided.grammar.network.shortest import shortest_ways
from guided.grammar.network.without_marks import without_marks
from guided.regular.byte_dfa import byte_classes
from guided.regular.dfa import DEAD, Dfa
from guided.regular.expression import Concat
from guided.regular.nfa import Nfa, nfa_from_regular
from guided.runtime.fuel import spend

__all__ = ["MAX_STATES", "network_from_grammar"]

MAX_STATES: Final = 60_000
"""States of a network, some hundred bytes each."""
_START: Final = 0


def network_from_grammar(
    grammar: ContextFreeGrammar, missing: Collection[int] = (), holes: Items[HoleText] = ()
) -> Network:
    """The network of a grammar's texts that need no byte out of ``missing``.

    ``holes`` says what the texts are like that fill the grammar's holes. Raises UnsatisfiableError
    where there are none, and LimitExceededError.
    """
    if len(holes) > MAX_HOLES:
        raise LimitExceededError(
            f"there are {len(holes)} schemas, more than {MAX_HOLES}",
            limit=MAX_HOLES,
            field="constraint",
            hint="say with one schema what is alike",
        )
    automata, terminals = _rule_automata(grammar, missing, holes)
    productive = productive_rules(automata)
    if _START not in productive:
        raise UnsatisfiableError(
            "no text satisfies the grammar",
            hint="look for rules that call themselves without a way out, and for bytes that the"
            " model's vocabulary cannot spell",
        )
    nullable = nullable_rules(automata)
    dead = automata.keys() - productive
    # What is left of a rule that had the empty text alone may be nothing.
    emptied = {rule: _without_empty(automata[rule], nullable, dead) for rule in productive}
    alive = productive_rules(emptied) if nullable or dead else productive
    if _START not in alive:
        return _laid_out({}, True, ())
    if alive != productive:
        dead = automata.keys() - alive
        emptied = {rule: _without_empty(emptied[rule], set(), dead) for rule in alive}
    return _laid_out(_simplified(emptied, terminals), _START in nullable, holes)


def _simplified(automata: dict[int, Dfa], terminals: Set[int]) -> dict[int, Dfa]:
    """The automata with what need not be called taken in, without left recursion."""
    try:
        return _without_left_recursion(inlined(automata, _START, terminals))
    except LimitExceededError:
        # Out of what is large, even what begins with the rule itself can grow past all bounds.
        return _without_left_recursion(inlined(automata, _START, terminals, LITTLE_GROWTH))


def _rule_automata(
    grammar: ContextFreeGrammar, missing: Collection[int], holes: Items[HoleText]
) -> tuple[dict[int, Dfa], Set[int]]:
    """The automata of the rules that the start rule leads to, and which of them are terminals.

    Rule 0 is the whole: the start rule, and what may be ignored behind it.
    """
    order = reached_rules(grammar)
    if len(order) >= MAX_RULES:
        raise LimitExceededError(
            f"the grammar has more than {MAX_RULES} rules", limit=MAX_RULES, field="constraint"
        )
    numbers = {name: number for number, name in enumerate(order, _START + 1)}
    bodies = Bodies(numbers, grammar.ignored, missing)
    written = written_out(grammar, order)
    automata = _automata(grammar, bodies, numbers, written, simpler) if written else None
    if automata is None:
        # What would make its callers large is better called.
        automata = _automata(grammar, bodies, numbers, {}, determined)
    assert automata is not None, "a limit raises"
    terminals = bodies.terminals
    if not bodies.marks:
        return automata | terminals, terminals.keys()
    # What looks around reads bytes, also those of terminals, and is new automata in the end.
    for number, dfa in [*automata.items()]:
        inner = called(dfa) & terminals.keys()
        spelled = substituted(dfa, inner, terminals) if inner else None
        automata[number] = dfa if spelled is None else spelled
    return without_marks(automata | terminals, list(bodies.marks), holes), set()


def _automata(
    grammar: ContextFreeGrammar,
    bodies: Bodies,
    numbers: Mapping[str, int],
    written: Mapping[str, Body],
    made: Callable[[Nfa], Dfa | None],
) -> dict[int, Dfa] | None:
    """The automata of the rules that are not ``written`` out, ``None`` if one is not made."""
    wholes: dict[int, Body] = {_START: Call(grammar.start)}
    wholes |= {
        number: grammar.rules[name] for name, number in numbers.items() if name not in written
    }
    automata: dict[int, Dfa] = {}
    for number, body in wholes.items():
        spend(300)
        letters = bodies.letters(body, written)
        if number == _START:
            letters = Concat((letters, bodies.blank))
        dfa = made(nfa_from_regular(letters))
        if dfa is None:
            return None
        automata[number] = dfa
    return automata


def _without_empty(dfa: Dfa, nullable: Set[int], dead: Set[int]) -> Dfa:
    """The automaton without the empty text and without dead calls.

    Calls of nullable rules may be passed over.
    """
    empty_calls = [edge for edge in call_edges(dfa) if edge[1] in nullable]
    if not empty_calls and not dead and dfa.label[0] == DEAD:
        return dfa
    nfa = Nfa()
    start = nfa.add_states()
    sets = [without_calls(chars, dead) for chars in dfa.classes]
    first = paste(nfa, dfa, sets)
    nfa.empties.add(start, first)
    nfa.final = nfa.add_states()
    for source, _, target in empty_calls:
        nfa.empties.add(first + source, first + target)
    for end in np.nonzero(dfa.accepting)[0].tolist():
        nfa.empties.add(first + end, nfa.final)
    made = determined(nfa)
    if not len(made) or made.label[0] == DEAD:
        return made
    # A start that accepts becomes one of its own that does not, in front of all.
    label = np.concatenate([[DEAD], made.label]).astype(np.int32)
    table = np.concatenate([made.next[:1], made.next]) + 1
    table = np.where(np.concatenate([made.next[:1], made.next]) == DEAD, DEAD, table)
    return Dfa(made.classes, table.astype(np.int32), label).relabelled({0: 0})


def _without_left_recursion(automata: dict[int, Dfa]) -> dict[int, Dfa]:
    leading = {rule: begins_with(dfa) for rule, dfa in automata.items()}
    result = dict(automata)
    for component in components(leading):
        members = sorted(component)
        if len(members) > 1 or members[0] in leading[members[0]]:
            for rule in members:
                result[rule] = without_leading_calls(rule, members, automata)
    # Some may be called by nobody any more.
    found: dict[int, Dfa] = {}
    waiting = [_START]
    while waiting:
        rule = waiting.pop()
        if rule not in found:
            found[rule] = result[rule]
            waiting += {callee for chars in result[rule].classes for callee in calls_in(chars)}
    return found


def _laid_out(automata: dict[int, Dfa], accepts_nothing: bool, holes: Items[HoleText]) -> Network:
    order = sorted(automata)
    number = {rule: index for index, rule in enumerate(order)}
    # Behind the rules comes a state for each hole.
    sizes = [*(len(automata[rule]) for rule in order), *[1] * len(holes)]
    starts = np.cumsum([0, *sizes])
    count = int(starts[-1])
    if count > MAX_STATES:
        raise LimitExceededError(
            f"the grammar needs {count} states, more than {MAX_STATES}",
            limit=MAX_STATES,
            field="constraint",
            hint="lower the bounds of repeats, or list fewer alternatives",
        )
    spend(4 * count)
    # What each rule's automaton tells apart, and, last, the bytes that holes begin with.
    columns = np.full((len(order) + 1, 256), DEAD, dtype=np.int32)
    for place, rule in enumerate(order):
        columns[place] = bytes_by_class(automata[rule])
    begun = sorted({byte for hole in holes for byte in hole.first})
    columns[-1, begun] = begun
    byte_class, firsts = byte_classes(columns)
    own_classes = np.full((len(sizes), len(firsts)), DEAD, dtype=np.int32)
    own_classes[: len(order)] = columns[:-1, firsts]
    moves = np.empty((count, len(firsts)), dtype=np.int32)
    moves[count - len(holes) :] = DEAD
    edges = [np.empty((0, 3), dtype=np.int32)]
    calls: list[tuple[int, int, int]] = []
    accepting = np.zeros(count, dtype=np.bool_)
    for rule, first, size, own in zip(order, starts.tolist(), sizes, columns, strict=False):
        dfa = automata[rule]
        accepting[first : first + size] = dfa.accepting
        edges.append(lay_moves(dfa.next, own, first, byte_class, moves))
        for source, callee, target in call_edges(dfa):
            calls.append((first + source, number[callee], first + target))
        for source, hole, target in hole_edges(dfa):
            calls.append((first + source, len(order) + hole, first + target))
    calling: dict[int, list[CallEdge]] = {}
    for source, rule, target in calls:
        calling.setdefault(source, []).append(CallEdge(rule, target))
    by_state: list[tuple[CallEdge, ...]] = [()] * count
    for source, edges_there in calling.items():
        by_state[source] = tuple(edges_there)
    as_array = np.array(calls, dtype=np.int32).reshape(-1, 3)
    known = np.where(accepting, 0, -1)
    known[count - len(holes) :] = [hole.shortest for hole in holes]
    left, ways = shortest_ways(starts[:-1], np.concatenate(edges), as_array, known)
    return Network(
        tuple(starts[:-1].tolist()),
        byte_class,
        moves,
        own_classes,
        tuple(by_state),
        accepting,
        tuple(left.tolist()),
        ways,
        accepts_nothing,
        tuple(holes),
    )
