"""Look-arounds at the edges of terminals, worked into the automata of rules.

How a look-around becomes states
--------------------------------
A terminal such as ``OP: /[?](?![a-z])/`` is its text, ``[?]``, and an *assertion* at its edge about
the text around it. In the automaton of a rule the assertion is a separate symbol, which reads
nothing::

    start: OP+          0 --"?"--> 1 --assertion 0--> 2 --"?"--> 1

Which assertions may stand where in a text is a regular language, so it has an automaton:

- A *look-behind* is decided where it is met: its automaton runs over the whole text, beginning
  again at each byte, and says in each state whether the text before it ends in what is looked for.
- A *look-ahead* is an obligation. From the assertion on its automaton runs along with the text,
  until it is fulfilled or broken. A text that breaks one is not in the language.
- A text that is ``Alone`` (a part of a composition) sees nothing around it. Its borders are symbols
  too: the first opens a *level* with fresh automata, the last closes it.

A state of this ``AssertionAutomaton`` is the levels, each with what its look-behinds know and which
obligations are open. The rules are then multiplied with it (Bar-Hillel, Perles and Shamir, 1961):
one copy of a rule for each state that it is entered in and each that it is left in::

    state of a rule x state of the assertions     moves
    (1, {})     --assertion 0-->  (2, {open})     the look-ahead is to be fulfilled
    (2, {open}) --"?"---------->  (1, {})         "?" is no letter: fulfilled
    (2, {open}) --"a"---------->  none            broken
    (2, {open})  end of the text                  fulfilled: no letter follows

Afterwards no assertion is left, and no later pass knows that there were any.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.network.network import HoleText
from guided.grammar.network.rule_automata import RuleAutomata, determined
from guided.grammar.network.symbols import (
    MAX_ASSERTIONS,
    MAX_RULES,
    Kind,
    numbers_in,
    symbol_set,
)
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import EMPTY, CodePoints
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import ANYTHING, Concat, Look
from guided.regular.nfa import Nfa
from guided.regular.utf8 import utf8_sequences
from guided.runtime.fuel import spend

__all__ = ["Assertion", "Border", "without_assertions"]


class Border(Enum):
    """The ends of a text that sees nothing of what stands around it."""

    BEGIN = "begin"
    END = "end"


Assertion: TypeAlias = Look | Border


class _Level(NamedTuple):
    """What is known inside such a text, or inside the whole."""

    behind: tuple[frozenset[int], ...]
    """By look-behind, in the order of ``AssertionAutomaton._behind``, the states of its automaton:
    one; all where a hole stands before it; or none for one that looks for what no text contains."""
    ahead: frozenset[tuple[int, int]]
    """The look-aheads that are not decided, each with its state."""


_Levels: TypeAlias = tuple[_Level, ...]
"""A state of the automaton of assertions: the levels, innermost last."""


class AssertionAutomaton:
    """The automaton of assertions, over classes of bytes that they all read alike.

    ``start`` is its first state. Its states are computed when they are needed; those that break an
    obligation, or in which an assertion does not hold, are ``None``.
    """

    def __init__(self, assertions: Sequence[Assertion]) -> None:
        if len(assertions) > MAX_ASSERTIONS:
            raise LimitExceededError(
                f"the terminals look around in {len(assertions)} ways, more than {MAX_ASSERTIONS}",
                limit=MAX_ASSERTIONS,
                field="constraint",
            )
        self._assertions = assertions
        # All by the number of the assertion; borders have no automaton. Look-behinds are ordered
        # as in ``_behind`` wherever they have no number.
        looks = {n: each for n, each in enumerate(assertions) if isinstance(each, Look)}
        self._behind = {n: _texts_ending_in(each) for n, each in looks.items() if not each.ahead}
        ahead = {n: _texts_beginning_with(each) for n, each in looks.items() if each.ahead}
        self._fulfilled = {n: fulfilled for n, (_, fulfilled) in ahead.items()}
        self._tables = {n: table for n, (table, _) in ahead.items()} | self._behind
        # By look-behind all states of its automaton, for where any text may stand before.
        self._any = tuple(frozenset(range(len(table))) for table in self._behind.values())
        self._fresh = _Level(tuple(states & {0} for states in self._any), frozenset())
        # If a part of the text is alone, no terminal outside such parts looks around.
        self.start: _Levels = () if Border.BEGIN in assertions else (self._fresh,)
        self.classes = self._byte_classes()
        self._known: dict[tuple[_Levels, int], _Levels | None] = {}
        """By state and byte the state after it, see ``after_byte``."""

    def _byte_classes(self) -> list[CodePoints]:
        """Sets of bytes that all automata read alike; a single one if no automaton reads any."""
        columns = np.array([table.byte_class for table in self._tables.values()], dtype=np.uint8)
        columns = columns.reshape(-1, 256)
        alike: dict[bytes, list[tuple[int, int]]] = {}
        for byte in range(256):
            alike.setdefault(columns[:, byte].tobytes(), []).append((byte, byte))
        return [CodePoints.of(ranges) for ranges in alike.values()]

    def after_byte(self, state: _Levels, byte: int) -> _Levels | None:
        """Return the state after a byte, ``None`` if it breaks an obligation."""
        if (state, byte) not in self._known:
            spend(10 + sum(10 + 3 * (len(each.ahead) + len(each.behind)) for each in state))
            levels = [self._level_after_byte(level, byte) for level in state]
            kept = tuple(level for level in levels if level is not None)
            self._known[state, byte] = kept if len(kept) == len(levels) else None
        return self._known[state, byte]

    def _level_after_byte(self, level: _Level, byte: int) -> _Level | None:
        """Return one level after a byte, ``None`` if the byte breaks a look-ahead."""
        behind = tuple(
            frozenset(table.step(at, byte) for at in states) - {DEAD}
            for table, states in zip(self._behind.values(), level.behind, strict=True)
        )
        obligations = set[tuple[int, int]]()
        for number, at in level.ahead:
            left = self._obligation(number, self._tables[number].step(at, byte))
            if left is None:
                return None
            obligations |= left
        return _Level(behind, frozenset(obligations))

    def _obligation(self, number: int, at: int) -> frozenset[tuple[int, int]] | None:
        """Return what is left of a look-ahead in a state of its automaton, ``None`` if broken.

        Nothing is left where it is fulfilled. ``at`` is DEAD if what it looks for can no longer
        be found.
        """
        # In all other states both outcomes remain: what is looked for may be found, or not.
        if at not in (DEAD, self._fulfilled[number]):
            return frozenset({(number, at)})
        holds = (at != DEAD) != self._is_negative(number)
        return frozenset() if holds else None

    def _is_negative(self, number: int) -> bool:
        look = self._assertions[number]
        assert isinstance(look, Look), "borders have no automaton"
        return look.negative

    def after_assertion(self, state: _Levels, number: int) -> _Levels | None:
        """Return the state after an assertion, ``None`` if it does not hold.

        Reads and changes only the innermost level: a text that is alone does not see the others.
        There is one: borders come in pairs, and if there are any, every look-around stands
        between them. Raises UnsupportedFeatureError if a look-behind would see into a hole.
        """
        assertion = self._assertions[number]
        if assertion is Border.BEGIN:
            return (*state, self._fresh)
        *outer, level = state
        if assertion is Border.END:
            return tuple(outer) if self._level_may_end(level) else None
        if number in self._fulfilled:
            # A look-ahead; an automaton without states looks for what no text contains.
            begun = self._obligation(number, 0 if len(self._tables[number]) else DEAD)
            return None if begun is None else (*outer, level._replace(ahead=level.ahead | begun))
        states = dict(zip(self._behind, level.behind, strict=True))[number]
        label = self._behind[number].label
        # A look-behind that looks for what no text contains is in no state.
        found = {label[at] != DEAD for at in states} or {False}
        # Several results: a hole stands before it, and its text decides.
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
        """Return the state after a hole, which begins with at least one byte.

        ``None`` if no text of the hole may stand there. Raises UnsupportedFeatureError if
        that depends on the text of the hole.
        """
        # All first bytes must lead to one state, in which no look-ahead is open any more. What
        # look-behinds see after the hole depends on its text, so they may be in any state.
        reached = {self._with_any_text_behind(self.after_byte(state, byte)) for byte in hole.first}
        after = reached.pop()
        if reached or (after is not None and any(level.ahead for level in after)):
            _refuse_hole("ahead")
        return after

    def _with_any_text_behind(self, state: _Levels | None) -> _Levels | None:
        """Return the state with nothing known about what stands before it."""
        return state and tuple(level._replace(behind=self._any) for level in state)


def _refuse_hole(direction: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"look-{direction} at the edge of a terminal that would see into a JSON value",
        hint="part them by a text, or leave the look-around out",
    )


def _texts_ending_in(look: Look) -> ByteDfa:
    """Return the texts at whose end a look-behind finds what it looks for."""
    return byte_dfa_from_dfa(dfa_from_regular(Concat((ANYTHING, look.item))), utf8_sequences)


def _texts_beginning_with(look: Look) -> tuple[ByteDfa, int | None]:
    """Return the texts at whose start a look-ahead finds it, and the state in which it was found.

    That is the state from which all texts continue; ``None`` if there is none, as where it looks
    for what no text contains.
    """
    dfa = dfa_from_regular(Concat((look.item, ANYTHING)))
    # States keep their numbers: those inside a code point are added after them.
    all_texts = [
        state
        for state, row in enumerate(dfa.next.tolist())
        if dfa.label[state] != DEAD
        and set(row) == {state}
        and not ~CodePoints.of(bounds for chars in dfa.classes for bounds in chars.ranges)
    ]
    return byte_dfa_from_dfa(dfa, utf8_sequences), all_texts[0] if all_texts else None


# --- the product of rules and assertions ---------------------------------------------------


class _Entry(NamedTuple):
    """A rule, entered in a state of the assertions."""

    rule: int
    state: _Levels


class _Passage(NamedTuple):
    """A rule, entered in one state of the assertions and left in another: a rule of the product."""

    entry: _Entry
    left: _Levels


class _Node(NamedTuple):
    """A state of a rule and one of the assertions."""

    at: int
    state: _Levels


def without_assertions(
    automata: RuleAutomata, assertions: Sequence[Assertion], holes: Sequence[HoleText]
) -> dict[int, Dfa]:
    """Return the automata of the texts in which all assertions hold; rule 0 is the whole.

    ``assertions`` and ``holes`` are by the numbers of their symbols in ``automata``. Raises
    UnsupportedFeatureError if a look-around would see into a hole, and LimitExceededError.
    """
    return _Product(automata, AssertionAutomaton(assertions), holes).automata()


class _Product:
    """The product of rules and assertions: each rule once for each state that it is entered in.

    A rule may be left in several states of the assertions, which are known only once it was
    followed to its ends. So all nodes are found first (``_expand``); then each way through a rule,
    a state to enter in and one to leave in, becomes a separate rule (``_automaton``).
    """

    def __init__(
        self, automata: RuleAutomata, assertions: AssertionAutomaton, holes: Sequence[HoleText]
    ) -> None:
        self._automata = automata
        self._assertions = assertions
        self._holes = holes
        self._nodes: dict[_Entry, dict[_Node, int]] = {}
        """The nodes that were reached, numbered as they come up: 0 is where the rule begins."""
        self._edges: dict[_Entry, list[tuple[_Node, CodePoints, _Node]]] = {}
        """Edges of assertions, which read nothing, have no symbols."""
        self._calls: dict[_Entry, list[tuple[_Node, _Entry, int]]] = {}
        """Where the call is made, what is called, and the state of the caller after it."""
        self._callers: dict[_Entry, list[tuple[_Entry, int]]] = {}
        """What calls it, and the state of the caller after it."""
        self._exits: dict[_Entry, dict[_Levels, None]] = {}
        """The states in which it is left, as far as they are known, in the order found."""
        self._numbers: dict[_Passage, int] = {}
        """Rules of the product, in the order of their numbers."""
        self._parts: dict[CodePoints, list[CodePoints]] = {}
        """The results of ``_split``."""
        self._waiting: list[tuple[_Entry, _Node]] = []
        """Nodes to be expanded; each is in it once."""

    def automata(self) -> dict[int, Dfa]:
        """Rule 0, and the rules that it leads to, renumbered; to be called once."""
        whole = _Entry(0, self._assertions.start)
        self._reach(whole, _Node(0, whole.state))
        while self._waiting:
            self._expand(*self._waiting.pop())
        # Only now all ways to leave a rule are known, and with them the rules of the product.
        ends = [state for state in self._exits[whole] if self._assertions.may_end(state)]
        found = {0: self._automaton(whole, ends)}
        # Building an automaton numbers the rules that it calls, which are built next.
        built = 0
        while built < len(self._numbers):
            passages = list(self._numbers.items())[built:]
            built = len(self._numbers)
            found |= {number: self._automaton(p.entry, [p.left]) for p, number in passages}
        return found

    def _reach(self, entry: _Entry, node: _Node) -> None:
        """Record that a node of an entered rule is reached, to be expanded the first time."""
        if entry not in self._nodes:
            self._nodes[entry], self._edges[entry], self._calls[entry] = {}, [], []
            self._callers.setdefault(entry, [])
            self._exits.setdefault(entry, {})
        nodes = self._nodes[entry]
        if node not in nodes:
            nodes[node] = len(nodes)
            self._waiting.append((entry, node))

    def _expand(self, entry: _Entry, node: _Node) -> None:
        """Follow all moves out of a node, and record that the rule is left if it may end there."""
        dfa, assertions = self._automata[entry.rule], self._assertions
        if not len(dfa):
            return
        spend(10 + len(dfa.classes))
        if dfa.accepting[node.at]:
            self._exit(entry, node.state)
        for chars, target in zip(dfa.classes, dfa.next[node.at].tolist(), strict=True):
            if target == DEAD:
                continue
            for number in numbers_in(chars, Kind.ASSERTION):
                after = assertions.after_assertion(node.state, number)
                self._link(entry, node, EMPTY, target, after)
            for hole in numbers_in(chars, Kind.HOLE):
                after = assertions.after_hole(node.state, self._holes[hole])
                self._link(entry, node, symbol_set(Kind.HOLE, [hole]), target, after)
            for rule in numbers_in(chars, Kind.CALL):
                self._call(entry, node, _Entry(rule, node.state), target)
            # Bytes of a part lead to one state, so one of them stands for all.
            for part in self._split(chars):
                after = assertions.after_byte(node.state, part.ranges[0][0])
                self._link(entry, node, part, target, after)

    def _link(
        self, entry: _Entry, node: _Node, chars: CodePoints, target: int, state: _Levels | None
    ) -> None:
        """Add an edge to the node at ``target`` and ``state``; none where ``state`` is ``None``."""
        if state is not None:
            self._edges[entry].append((node, chars, _Node(target, state)))
            self._reach(entry, _Node(target, state))

    def _call(self, entry: _Entry, node: _Node, callee: _Entry, target: int) -> None:
        """Record a call, and continue after it in all states in which the callee is known to end.

        ``_exit`` passes on states that become known later.
        """
        self._calls[entry].append((node, callee, target))
        self._reach(callee, _Node(0, callee.state))
        self._callers[callee].append((entry, target))
        for state in self._exits[callee]:
            self._reach(entry, _Node(target, state))

    def _exit(self, entry: _Entry, state: _Levels) -> None:
        """Record that a rule is left in a state, and continue in it after all calls known."""
        if state not in self._exits[entry]:
            # Callers that were met before continue in their states after the call; later ones find
            # the exit in ``_call``.
            self._exits[entry][state] = None
            for caller, target in self._callers[entry]:
                self._reach(caller, _Node(target, state))

    def _split(self, chars: CodePoints) -> list[CodePoints]:
        """Return the bytes of a set, split by what the assertions distinguish."""
        if chars not in self._parts:
            parts = [chars & bytes_ for bytes_ in self._assertions.classes]
            self._parts[chars] = [part for part in parts if part]
        return self._parts[chars]

    def _automaton(self, entry: _Entry, ends: Sequence[_Levels]) -> Dfa:
        """Return what a rule reads on its way to one of these ends.

        Only once all nodes are expanded: it uses the exits of its callees as they are now, and
        ``_call`` or ``_exit`` reached the node after each of them.
        """
        nodes, accepting = self._nodes[entry], self._automata[entry.rule].accepting
        nfa = Nfa()
        # What is entered first is node 0.
        nfa.add_states(len(nodes))
        for node, chars, after in self._edges[entry]:
            if chars:
                nfa.add_move(nodes[node], chars, nodes[after])
            else:
                nfa.empties.add(nodes[node], nodes[after])
        for node, callee, target in self._calls[entry]:
            for state in self._exits[callee]:
                call = symbol_set(Kind.CALL, [self._number(_Passage(callee, state))])
                nfa.add_move(nodes[node], call, nodes[_Node(target, state)])
        nfa.final = nfa.add_states()
        for node, number in nodes.items():
            if node.state in ends and len(accepting) and accepting[node.at]:
                nfa.empties.add(number, nfa.final)
        return determined(nfa)

    def _number(self, passage: _Passage) -> int:
        """Return the number of a rule of the product, from 1 on; ``automata`` builds these."""
        number = self._numbers.setdefault(passage, 1 + len(self._numbers))
        if number >= MAX_RULES:
            raise LimitExceededError(
                f"with what its terminals see around them the grammar has more than {MAX_RULES}"
                " rules",
                limit=MAX_RULES,
                field="constraint",
            )
        return number
