"""The rules of a grammar without the marks of look-around, which are worked into them.

They are multiplied with the automaton of what the marks ask for (Bar-Hillel, Perles and Shamir,
1961): one copy of a rule for each state that it is entered in and each that it is left in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from guided.errors import LimitExceededError
from guided.grammar.network.letters import (
    MAX_RULES,
    calls_in,
    determined,
    hole_letter,
    holes_in,
    letters,
    marks_in,
)
from guided.grammar.network.looks import Looks, LooksState, Mark
from guided.grammar.network.network import HoleText
from guided.regular.codepoints import EMPTY, CodePoints
from guided.regular.dfa import DEAD, Dfa
from guided.regular.nfa import Nfa
from guided.runtime.fuel import spend

__all__ = ["without_marks"]


class _Entry(NamedTuple):
    """A rule, entered in a state of the looks."""

    rule: int
    looks: LooksState


class _Passage(NamedTuple):
    """A rule, entered in one state of the looks and left in another."""

    entry: _Entry
    left: LooksState


class _Node(NamedTuple):
    """A state of a rule and one of the looks."""

    at: int
    looks: LooksState


def without_marks(
    automata: Mapping[int, Dfa], marks: Sequence[Mark], holes: Sequence[HoleText]
) -> dict[int, Dfa]:
    """The automata of texts in which what the marks ask for is so; rule 0 is the whole.

    Raises UnsupportedFeatureError where a look-around would see into a hole.
    """
    return _Product(automata, Looks(marks), holes).automata()


class _Product:
    def __init__(
        self, automata: Mapping[int, Dfa], looks: Looks, holes: Sequence[HoleText]
    ) -> None:
        self._automata = automata
        self._looks = looks
        self._holes = holes
        self._nodes: dict[_Entry, dict[_Node, int]] = {}
        self._edges: dict[_Entry, list[tuple[_Node, CodePoints, _Node]]] = {}
        """Those of marks, which are passed without reading anything, have no letters."""
        self._calls: dict[_Entry, list[tuple[_Node, _Entry, int]]] = {}
        """Where it is made, what is called, and the state behind it."""
        self._callers: dict[_Entry, list[tuple[_Entry, int]]] = {}
        self._exits: dict[_Entry, dict[LooksState, None]] = {}
        self._numbers: dict[_Passage, int] = {}
        self._parts: dict[CodePoints, list[CodePoints]] = {}
        self._waiting: list[tuple[_Entry, _Node]] = []

    def automata(self) -> dict[int, Dfa]:
        """Rule 0, and the rules that it leads to."""
        whole = _Entry(0, self._looks.start)
        self._reach(whole, _Node(0, whole.looks))
        while self._waiting:
            self._leave(*self._waiting.pop())
        ends = [looks for looks in self._exits[whole] if self._looks.may_end(looks)]
        found = {0: self._automaton(whole, ends)}
        built = 0
        while built < len(self._numbers):
            passages = list(self._numbers.items())[built:]
            built = len(self._numbers)
            found |= {number: self._automaton(p.entry, [p.left]) for p, number in passages}
        return found

    def _reach(self, entry: _Entry, node: _Node) -> None:
        if entry not in self._nodes:
            self._nodes[entry], self._edges[entry], self._calls[entry] = {}, [], []
            self._callers.setdefault(entry, [])
            self._exits.setdefault(entry, {})
        nodes = self._nodes[entry]
        if node not in nodes:
            nodes[node] = len(nodes)
            self._waiting.append((entry, node))

    def _leave(self, entry: _Entry, node: _Node) -> None:
        """Go on from a node."""
        dfa = self._automata[entry.rule]
        if not len(dfa):
            return
        spend(10 + len(dfa.classes))
        if dfa.accepting[node.at]:
            self._exit(entry, node.looks)
        for chars, target in zip(dfa.classes, dfa.next[node.at].tolist(), strict=True):
            if target == DEAD:
                continue
            for mark in marks_in(chars):
                passed = self._looks.pass_mark(node.looks, mark)
                self._link(entry, node, EMPTY, target, passed)
            for hole in holes_in(chars):
                letter = hole_letter(hole)
                passed = self._looks.pass_hole(node.looks, self._holes[hole])
                self._link(entry, node, CodePoints(((letter, letter),)), target, passed)
            for rule in calls_in(chars):
                self._call(entry, node, _Entry(rule, node.looks), target)
            for part in self._parted(chars):
                passed = self._looks.read(node.looks, part.ranges[0][0])
                self._link(entry, node, part, target, passed)

    def _link(
        self, entry: _Entry, node: _Node, chars: CodePoints, target: int, looks: LooksState | None
    ) -> None:
        if looks is not None:
            self._edges[entry].append((node, chars, _Node(target, looks)))
            self._reach(entry, _Node(target, looks))

    def _call(self, entry: _Entry, node: _Node, callee: _Entry, target: int) -> None:
        self._calls[entry].append((node, callee, target))
        self._reach(callee, _Node(0, callee.looks))
        self._callers[callee].append((entry, target))
        for looks in self._exits[callee]:
            self._reach(entry, _Node(target, looks))

    def _exit(self, entry: _Entry, looks: LooksState) -> None:
        if looks not in self._exits[entry]:
            self._exits[entry][looks] = None
            for caller, target in self._callers[entry]:
                self._reach(caller, _Node(target, looks))

    def _parted(self, chars: CodePoints) -> list[CodePoints]:
        """The bytes of a set, parted by what the looks tell apart."""
        if chars not in self._parts:
            parts = [chars & bytes_ for bytes_ in self._looks.classes]
            self._parts[chars] = [part for part in parts if part]
        return self._parts[chars]

    def _automaton(self, entry: _Entry, ends: Sequence[LooksState]) -> Dfa:
        """What a rule reads on its way to one of these ends."""
        nodes, accepting = self._nodes[entry], self._automata[entry.rule].accepting
        nfa = Nfa()
        # What is entered first is node 0.
        nfa.add_states(len(nodes))
        for node, chars, behind in self._edges[entry]:
            if chars:
                nfa.add_move(nodes[node], chars, nodes[behind])
            else:
                nfa.empties.add(nodes[node], nodes[behind])
        for node, callee, target in self._calls[entry]:
            for looks in self._exits[callee]:
                number = self._number(_Passage(callee, looks))
                nfa.add_move(nodes[node], letters([number]), nodes[_Node(target, looks)])
        nfa.final = nfa.add_states()
        for node, number in nodes.items():
            if node.looks in ends and len(accepting) and accepting[node.at]:
                nfa.empties.add(number, nfa.final)
        return determined(nfa)

    def _number(self, passage: _Passage) -> int:
        number = self._numbers.setdefault(passage, 1 + len(self._numbers))
        if number >= MAX_RULES:
            raise LimitExceededError(
                f"with what its terminals see around them the grammar has more than {MAX_RULES}"
                " rules",
                limit=MAX_RULES,
                field="constraint",
            )
        return number
