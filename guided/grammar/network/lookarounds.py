"""Removes assertions, the look-arounds at edges of terminals, by a product with the rules.

How a look-around becomes states
--------------------------------
A terminal such as ``OP: /[?](?![a-z])/`` is its text, ``[?]``, and an *assertion* at its edge about
the text around it. In the automaton of a rule an assertion is a symbol that reads nothing::

    start: OP+          0 --"?"--> 1 --assertion 0--> 2 --"?"--> 1

Which assertions may stand where in a text is a regular language, so it has an automaton:

- A *look-behind* is decided at its position: its automaton, for any text that ends in what is
  looked for, runs over the whole text and says so in each state.
- A *look-ahead* is an obligation. From its position on its automaton runs along with the text until
  it is fulfilled or broken. A text that breaks one is not in the language.
- A text that is ``Alone`` (a part of a composition) sees nothing around it. Its borders are symbols
  too: the first opens a *level*, with all automata at their start, the last closes it.

A state of this ``AssertionAutomaton`` is a stack of levels, each with the states of its
look-behinds and its open obligations. The product of the rules and this automaton (Bar-Hillel,
Perles and Shamir, 1961) has a copy of a rule for each state in which it is entered and each in
which it is left::

    state of a rule x state of the assertions     moves
    (1, {})     --assertion 0-->  (2, {open})     the look-ahead is to be fulfilled
    (2, {open}) --"?"---------->  (1, {})         "?" is no letter: fulfilled
    (2, {open}) --"a"---------->  none            broken
    (2, {open})  end of the text                  fulfilled: no letter follows

Later passes see no assertions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.network.network import HoleText
from guided.grammar.network.rule_automata import RuleAutomata, determinize
from guided.grammar.network.symbols import (
    MAX_ASSERTIONS,
    MAX_RULES,
    Kind,
    numbers_in,
    symbol_set,
)
from guided.machine.special_bytes import SPECIAL_MARK
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import EMPTY, CodePoints
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import ANYTHING, Concat, Look
from guided.regular.nfa import Nfa
from guided.regular.utf8 import utf8_sequences
from guided.runtime.work_budget import spend

__all__ = ["Assertion", "Border", "remove_assertions"]


class Border(Enum):
    """The ends of a text that is ``Alone``: its look-arounds see nothing outside."""

    BEGIN = "begin"
    END = "end"


Assertion: TypeAlias = Look | Border


class _Level(NamedTuple):
    """What is known inside a text that is ``Alone``, or inside the whole text."""

    behind: tuple[frozenset[int], ...]
    """The possible states of each look-behind's automaton, in the order of ``_behind_tables``.

    One state; all after a hole, whose text is unknown; none if it looks for what no text has."""
    ahead: frozenset[tuple[int, int]]
    """The open obligations: numbers of look-aheads, and the states of their automata."""


_Levels: TypeAlias = tuple[_Level, ...]
"""A state of ``AssertionAutomaton``: the stack of levels, innermost last."""


class AssertionAutomaton:
    """The automaton that decides assertions; its states are computed when they are needed.

    ``start`` is its first state, and ``None`` stands for the dead state, in which an obligation was
    broken or an assertion did not hold. ``classes`` are sets of bytes that it does not distinguish.
    """

    def __init__(self, assertions: Sequence[Assertion]) -> None:
        if len(assertions) > MAX_ASSERTIONS:
            raise LimitExceededError(
                f"the terminals look around in {len(assertions)} ways, more than {MAX_ASSERTIONS}",
                limit=MAX_ASSERTIONS,
                field="constraint",
            )
        self._assertions = assertions
        # All by the number of the assertion; borders have no automaton.
        looks = {n: each for n, each in enumerate(assertions) if isinstance(each, Look)}
        self._behind_tables = {
            n: _texts_ending_in(each) for n, each in looks.items() if not each.ahead
        }
        ahead = {n: _texts_beginning_with(each) for n, each in looks.items() if each.ahead}
        self._found_states = {n: found for n, (_, found) in ahead.items()}
        """By look-ahead the state in which what it looks for was found, if there is one."""
        self._tables = {n: table for n, (table, _) in ahead.items()} | self._behind_tables
        # All states of each look-behind's automaton, in the order of ``_behind_tables``.
        self._all_states = tuple(
            frozenset(range(len(table))) for table in self._behind_tables.values()
        )
        self._initial_level = _Level(
            tuple(states & {0} for states in self._all_states), frozenset()
        )
        # With borders, all look-arounds are inside texts that are ``Alone``.
        self.start: _Levels = () if Border.BEGIN in assertions else (self._initial_level,)
        self.classes = self._byte_classes()
        self._after_byte_cache: dict[tuple[_Levels, int], _Levels | None] = {}
        """Results of ``after_byte``, by state and byte."""

    def _byte_classes(self) -> list[CodePoints]:
        """Return sets of bytes that no automaton distinguishes; one set of all without automata."""
        # ``after_byte`` also tells SPECIAL_MARK from other bytes, but where it does, no text holds
        # the others of its class.
        columns = np.array([table.byte_class for table in self._tables.values()], dtype=np.uint8)
        columns = columns.reshape(-1, 256)
        alike: dict[bytes, list[tuple[int, int]]] = {}
        for byte in range(256):
            alike.setdefault(columns[:, byte].tobytes(), []).append((byte, byte))
        return [CodePoints.from_ranges(ranges) for ranges in alike.values()]

    def after_byte(self, state: _Levels, byte: int) -> _Levels | None:
        """Return the state after a byte, ``None`` if the byte breaks an obligation."""
        if (state, byte) not in self._after_byte_cache:
            spend(10 + sum(10 + 3 * (len(each.ahead) + len(each.behind)) for each in state))
            levels = [self._level_after_byte(level, byte) for level in state]
            kept = tuple(level for level in levels if level is not None)
            self._after_byte_cache[state, byte] = kept if len(kept) == len(levels) else None
        return self._after_byte_cache[state, byte]

    def _level_after_byte(self, level: _Level, byte: int) -> _Level | None:
        """Return a level after a byte, ``None`` if the byte breaks an obligation."""
        behind = tuple(
            frozenset(table.step(at, byte) for at in states) - {DEAD}
            for table, states in zip(self._behind_tables.values(), level.behind, strict=True)
        )
        if byte == SPECIAL_MARK:
            # No text has it: the one before a special token's name leaves no state, and after the
            # second there is no text yet to look back at.
            behind = tuple(
                begin if not states else after
                for begin, states, after in zip(
                    self._initial_level.behind, level.behind, behind, strict=True
                )
            )
        obligations = set[tuple[int, int]]()
        for number, at in level.ahead:
            left = self._remaining_obligation(number, self._tables[number].step(at, byte))
            if left is None:
                return None
            obligations |= left
        return _Level(behind, frozenset(obligations))

    def _remaining_obligation(self, number: int, at: int) -> frozenset[tuple[int, int]] | None:
        """Return what is left of a look-ahead's obligation, ``None`` if it is broken.

        It is the empty set if it is fulfilled. ``number`` is that of the assertion, ``at`` the
        state of its automaton: DEAD if what is looked for can no longer be found, which fulfils a
        negative look-ahead.
        """
        # Neither found nor ruled out: both outcomes are still possible.
        if at not in (DEAD, self._found_states[number]):
            return frozenset({(number, at)})
        holds = (at != DEAD) != self._is_negative(number)
        return frozenset() if holds else None

    def _is_negative(self, number: int) -> bool:
        look = self._assertions[number]
        assert isinstance(look, Look), "borders have no automaton"
        return look.negative

    def after_assertion(self, state: _Levels, number: int) -> _Levels | None:
        """Return the state after an assertion, ``None`` if it does not hold.

        Reads and changes only the innermost level. There is one: borders come in pairs, and if
        there are any, every look-around is between them. Raises UnsupportedFeatureError if a
        look-behind would see into a hole.
        """
        assertion = self._assertions[number]
        if assertion is Border.BEGIN:
            return (*state, self._initial_level)
        *outer, level = state
        if assertion is Border.END:
            return tuple(outer) if self._level_may_end(level) else None
        if number in self._found_states:
            # A look-ahead; an automaton without states looks for what no text contains.
            opened = self._remaining_obligation(number, 0 if len(self._tables[number]) else DEAD)
            return None if opened is None else (*outer, level._replace(ahead=level.ahead | opened))
        states = dict(zip(self._behind_tables, level.behind, strict=True))[number]
        label = self._behind_tables[number].label
        # Without states it looks for what no text contains.
        found = {label[at] != DEAD for at in states} or {False}
        # Two results: the unknown text of a hole decides.
        if len(found) > 1:
            _refuse_hole("behind")
        return state if found != {self._is_negative(number)} else None

    def may_end(self, state: _Levels) -> bool:
        """Return whether the whole text may end in a state."""
        return all(map(self._level_may_end, state))

    def _level_may_end(self, level: _Level) -> bool:
        return all(
            (self._tables[number].label[at] != DEAD) != self._is_negative(number)
            for number, at in level.ahead
        )

    def after_hole(self, state: _Levels, hole: HoleText) -> _Levels | None:
        """Return the state after a hole, whose texts are not empty.

        ``None`` if every text of the hole breaks an obligation. Raises UnsupportedFeatureError
        unless the first byte decides all obligations, and all first bytes alike: this may refuse
        without need.
        """
        # All first bytes must lead to the same state, without open obligations. Look-behinds may be
        # in any state after the hole.
        reached = {self._forget_text_behind(self.after_byte(state, byte)) for byte in hole.first}
        after = reached.pop()
        if reached or (after is not None and any(level.ahead for level in after)):
            _refuse_hole("ahead")
        return after

    def _forget_text_behind(self, state: _Levels | None) -> _Levels | None:
        """Return the state with all states possible for look-behinds; ``None`` stays ``None``."""
        return state and tuple(level._replace(behind=self._all_states) for level in state)


def _refuse_hole(direction: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"look-{direction} at the edge of a terminal that would see into a JSON value",
        hint="part them by a text, or leave the look-around out",
    )


def _texts_ending_in(look: Look) -> ByteDfa:
    """Return the automaton of texts that end in what a look-behind looks for."""
    return byte_dfa_from_dfa(dfa_from_regular(Concat((ANYTHING, look.item))), utf8_sequences)


def _texts_beginning_with(look: Look) -> tuple[ByteDfa, int | None]:
    """Return the automaton of texts that begin with what a look-ahead looks for.

    Also returns the state in which it was found, from which all texts are accepted; ``None`` if
    there is none, as where it looks for what no text contains.
    """
    dfa = dfa_from_regular(Concat((look.item, ANYTHING)))
    # In the automaton over bytes, states keep their numbers.
    all_texts = [
        state
        for state, row in enumerate(dfa.next.tolist())
        if dfa.label[state] != DEAD
        and set(row) == {state}
        and not ~CodePoints.from_ranges(bounds for chars in dfa.classes for bounds in chars.ranges)
    ]
    return byte_dfa_from_dfa(dfa, utf8_sequences), all_texts[0] if all_texts else None


# --- the product of rules and assertions ---------------------------------------------------


class _Entry(NamedTuple):
    """A rule, and the state of the assertion automaton in which it is entered."""

    rule: int
    state: _Levels


class _Passage(NamedTuple):
    """A rule of the product: a rule, entered in one assertion state and left in another."""

    entry: _Entry
    exit_state: _Levels


class _Node(NamedTuple):
    """A state of the product: a state of a rule, and one of the assertion automaton."""

    rule_state: int
    state: _Levels


def remove_assertions(
    automata: RuleAutomata, assertions: Sequence[Assertion], holes: Sequence[HoleText]
) -> dict[int, Dfa]:
    """Return the automata of the texts in which all assertions hold; rule 0 is the whole.

    ``assertions`` and ``holes`` are by the numbers of their symbols in ``automata``. Raises
    UnsupportedFeatureError if a look-around would see into a hole, and LimitExceededError.
    """
    return _Product(automata, AssertionAutomaton(assertions), holes).build()


class _Product:
    """Builds the product of the rules and the assertion automaton.

    The states in which a rule may be left are known only when all its nodes are. So first all
    nodes of all entries are found (``_expand``); then each pair of an entry and an exit becomes a
    separate rule (``_build_automaton``).
    """

    def __init__(
        self, automata: RuleAutomata, assertions: AssertionAutomaton, holes: Sequence[HoleText]
    ) -> None:
        self._automata = automata
        self._assertions = assertions
        self._holes = holes
        self._nodes: dict[_Entry, dict[_Node, int]] = {}
        """The reachable nodes of each entry, numbered in the order found: 0 is the start."""
        self._edges: dict[_Entry, list[tuple[_Node, CodePoints, _Node]]] = {}
        """Source, symbols and target of each edge; without symbols it is an epsilon move."""
        self._calls: dict[_Entry, list[tuple[_Node, _Entry, int]]] = {}
        """The node that calls, the callee, and the state of the rule that the call returns to."""
        self._callers: dict[_Entry, list[tuple[_Entry, int]]] = {}
        """The callers of each entry, and the state of the caller that the call returns to."""
        self._exits: dict[_Entry, dict[_Levels, None]] = {}
        """The assertion states in which each entry was found to be left, in the order found."""
        self._numbers: dict[_Passage, int] = {}
        """The numbers of the rules of the product, from 1 on; built in this order."""
        self._split_cache: dict[CodePoints, list[CodePoints]] = {}
        """Results of ``_split``."""
        self._worklist: list[tuple[_Entry, _Node]] = []
        """Nodes to be expanded; each is added once."""

    def build(self) -> dict[int, Dfa]:
        """Return rule 0 of the product and the rules reachable from it; to be called once."""
        whole = _Entry(0, self._assertions.start)
        self._reach(whole, _Node(0, whole.state))
        while self._worklist:
            self._expand(*self._worklist.pop())
        # All nodes, and so all exits of rules, are known now.
        ends = [state for state in self._exits[whole] if self._assertions.may_end(state)]
        found = {0: self._build_automaton(whole, ends)}
        # Building an automaton numbers the rules that it calls; these are built next.
        built = 0
        while built < len(self._numbers):
            passages = list(self._numbers.items())[built:]
            built = len(self._numbers)
            found |= {
                number: self._build_automaton(passage.entry, [passage.exit_state])
                for passage, number in passages
            }
        return found

    def _reach(self, entry: _Entry, node: _Node) -> None:
        """Add a node of an entry to the worklist when it is reached for the first time."""
        if entry not in self._nodes:
            self._nodes[entry], self._edges[entry], self._calls[entry] = {}, [], []
            self._callers.setdefault(entry, [])
            self._exits.setdefault(entry, {})
        nodes = self._nodes[entry]
        if node not in nodes:
            nodes[node] = len(nodes)
            self._worklist.append((entry, node))

    def _expand(self, entry: _Entry, node: _Node) -> None:
        """Follow all moves of a node, and record an exit if the rule may end there."""
        dfa, assertions = self._automata[entry.rule], self._assertions
        if not len(dfa):
            return
        spend(10 + len(dfa.classes))
        if dfa.accepting[node.rule_state]:
            self._record_exit(entry, node.state)
        for chars, target in zip(dfa.classes, dfa.next[node.rule_state].tolist(), strict=True):
            if target == DEAD:
                continue
            for number in numbers_in(chars, Kind.ASSERTION):
                after = assertions.after_assertion(node.state, number)
                self._add_edge(entry, node, EMPTY, target, after)
            for hole in numbers_in(chars, Kind.HOLE):
                after = assertions.after_hole(node.state, self._holes[hole])
                self._add_edge(entry, node, symbol_set(Kind.HOLE, [hole]), target, after)
            for rule in numbers_in(chars, Kind.CALL):
                self._record_call(entry, node, _Entry(rule, node.state), target)
            # All bytes of a part lead to the same state.
            for part in self._split(chars):
                after = assertions.after_byte(node.state, part.ranges[0][0])
                self._add_edge(entry, node, part, target, after)

    def _add_edge(
        self, entry: _Entry, node: _Node, chars: CodePoints, target: int, state: _Levels | None
    ) -> None:
        """Add an edge to the node of ``target`` and ``state``, unless ``state`` is ``None``."""
        if state is not None:
            self._edges[entry].append((node, chars, _Node(target, state)))
            self._reach(entry, _Node(target, state))

    def _record_call(self, entry: _Entry, node: _Node, callee: _Entry, target: int) -> None:
        """Record a call, and continue after it in the states in which the callee may be left.

        ``_record_exit`` does so for those that are found later.
        """
        self._calls[entry].append((node, callee, target))
        self._reach(callee, _Node(0, callee.state))
        self._callers[callee].append((entry, target))
        for state in self._exits[callee]:
            self._reach(entry, _Node(target, state))

    def _record_exit(self, entry: _Entry, state: _Levels) -> None:
        """Record that an entry is left in a state, and continue in it after all recorded calls."""
        if state not in self._exits[entry]:
            # ``_record_call`` does so for calls that are found later.
            self._exits[entry][state] = None
            for caller, target in self._callers[entry]:
                self._reach(caller, _Node(target, state))

    def _split(self, chars: CodePoints) -> list[CodePoints]:
        """Return the bytes of a set, split by the classes of the assertion automaton."""
        if chars not in self._split_cache:
            parts = [chars & bytes_ for bytes_ in self._assertions.classes]
            self._split_cache[chars] = [part for part in parts if part]
        return self._split_cache[chars]

    def _build_automaton(self, entry: _Entry, ends: Sequence[_Levels]) -> Dfa:
        """Return the automaton of an entry, accepting where it is left in one of ``ends``.

        Only after all nodes were expanded, as it uses the exits of its callees.
        """
        nodes, accepting = self._nodes[entry], self._automata[entry.rule].accepting
        nfa = Nfa()
        # Node 0 was added first and is the start.
        nfa.add_states(len(nodes))
        for node, chars, after in self._edges[entry]:
            if chars:
                nfa.add_move(nodes[node], chars, nodes[after])
            else:
                nfa.epsilons.add(nodes[node], nodes[after])
        for node, callee, target in self._calls[entry]:
            for state in self._exits[callee]:
                call = symbol_set(Kind.CALL, [self._number_passage(_Passage(callee, state))])
                nfa.add_move(nodes[node], call, nodes[_Node(target, state)])
        nfa.final = nfa.add_states()
        for node, number in nodes.items():
            if node.state in ends and len(accepting) and accepting[node.rule_state]:
                nfa.epsilons.add(number, nfa.final)
        return determinize(nfa)

    def _number_passage(self, passage: _Passage) -> int:
        """Return the number of a rule of the product, a new one if it has none yet."""
        number = self._numbers.setdefault(passage, 1 + len(self._numbers))
        if number >= MAX_RULES:
            raise LimitExceededError(
                f"with what its terminals see around them the grammar has more than {MAX_RULES}"
                " rules",
                limit=MAX_RULES,
                field="constraint",
            )
        return number
