"""Look-around at the edges of terminals: what they ask of the text around them.

A rule's automaton has a *mark* where a terminal asks for something, as a letter. Which marks may
stand in a text is regular: what a look-behind asks for is known there, and what a look-ahead asks
for is an obligation that all that follows carries on. ``Looks`` is an automaton for that, and
``without_marks`` the product of the rules with it (Bar-Hillel, Perles and Shamir, 1961): one copy
of a rule for each state that it is entered in and each that it is left in. So ``"?" (?![a-z])``
ends in a state from which no letter leads on, and one byte behind it all is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np

from guided.automata.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.automata.codepoints import EMPTY, CodePoints
from guided.automata.dfa import DEAD, Dfa, dfa_from_regular
from guided.automata.fuel import spend
from guided.automata.nfa import Nfa
from guided.automata.regular import ANYTHING, Concat, Look
from guided.automata.utf8 import utf8_sequences
from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.context_free import InContext, ToContext
from guided.network.letters import (
    MAX_MARKS,
    MAX_RULES,
    calls_in,
    determined,
    hole_letter,
    holes_in,
    letters,
    marks_in,
)
from guided.network.network import HoleText

__all__ = ["Border", "Mark", "without_marks"]


class Border(Enum):
    """The ends of a text that sees nothing of what stands around it."""

    BEGIN = "begin"
    END = "end"


Mark: TypeAlias = Look | Border | InContext | ToContext


class _Level(NamedTuple):
    """What is known inside of such a text, or of the whole."""

    behind: tuple[int, ...]
    """The state of each look-behind."""
    ahead: frozenset[tuple[int, int]]
    """The look-aheads that are not decided, each with its state."""
    context: int = 0


_State: TypeAlias = tuple[_Level, ...]
"""The levels, innermost last."""


class _Looks:
    """The automaton of what marks ask for, over classes of bytes that they all read alike."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self._marks = marks
        self._behind = {n: _searched(m) for n, m in enumerate(marks) if _looks(m, ahead=False)}
        self._ahead = {n: _continued(m) for n, m in enumerate(marks) if _looks(m, ahead=True)}
        self._settled = {n: found[1] for n, found in self._ahead.items()}
        self._tables = {n: found[0] for n, found in self._ahead.items()} | self._behind
        begun = tuple(0 if len(self._tables[number]) else DEAD for number in self._behind)
        self._fresh = _Level(begun, frozenset())
        alone = Border.BEGIN in marks
        self.start: _State = () if alone else (self._fresh,)
        columns = np.array([table.byte_class for table in self._tables.values()], dtype=np.uint8)
        columns = columns.reshape(-1, 256)
        kinds: dict[bytes, list[tuple[int, int]]] = {}
        for byte in range(256):
            kinds.setdefault(columns[:, byte].tobytes(), []).append((byte, byte))
        self.classes = [CodePoints.of(bytes_) for bytes_ in kinds.values()]
        self._known: dict[tuple[_State, int], _State | None] = {}

    def read(self, state: _State, byte: int) -> _State | None:
        """The state behind a byte, ``None`` where it breaks what was asked for."""
        if (state, byte) not in self._known:
            spend(10 * (1 + len(state)))
            levels = [self._level_behind(level, byte) for level in state]
            kept = tuple(level for level in levels if level is not None)
            self._known[state, byte] = kept if len(kept) == len(levels) else None
        return self._known[state, byte]

    def _level_behind(self, level: _Level, byte: int) -> _Level | None:
        behind = tuple(
            DEAD if at == DEAD else self._tables[number].step(at, byte)
            for number, at in zip(self._behind, level.behind, strict=True)
        )
        obliged = frozenset[tuple[int, int]]()
        for number, at in level.ahead:
            left = self._obliged(number, self._tables[number].step(at, byte))
            if left is None:
                return None
            obliged |= left
        return _Level(behind, obliged, level.context)

    def _obliged(self, number: int, at: int) -> frozenset[tuple[int, int]] | None:
        """What is left of a look-ahead in a state, ``None`` where it fails."""
        if at not in (DEAD, self._settled[number]):
            return frozenset({(number, at)})
        fulfilled = (at != DEAD) != self._negative(number)
        return frozenset() if fulfilled else None

    def _negative(self, number: int) -> bool:
        mark = self._marks[number]
        assert isinstance(mark, Look), "only look-around has a state"
        return mark.negative

    def pass_mark(self, state: _State, number: int) -> _State | None:
        """The state behind a mark, ``None`` where it may not stand."""
        mark = self._marks[number]
        if mark is Border.BEGIN:
            return (*state, self._fresh)
        *outer, level = state
        match mark:
            case Border.END:
                return tuple(outer) if self._may_end(level) else None
            case InContext(contexts):
                return state if level.context in contexts else None
            case ToContext(context):
                return (*outer, level._replace(context=context))
        if number in self._ahead:
            begun = self._obliged(number, 0 if len(self._tables[number]) else DEAD)
            return None if begun is None else (*outer, level._replace(ahead=level.ahead | begun))
        at = dict(zip(self._behind, level.behind, strict=True))[number]
        found = at != DEAD and self._tables[number].label[at] != DEAD
        return state if found != self._negative(number) else None

    def may_end(self, state: _State) -> bool:
        """Whether the whole may end in a state."""
        return all(map(self._may_end, state))

    def _may_end(self, level: _Level) -> bool:
        return all(
            (self._tables[number].label[at] != DEAD) != self._negative(number)
            for number, at in level.ahead
        )

    def pass_hole(self, state: _State, hole: HoleText) -> _State | None:
        """The state behind a hole.

        Raises UnsupportedFeatureError where that depends on the text of the hole.
        """
        reached = {self.read(state, byte) for byte in hole.first}
        if len(reached) == 1:
            (behind,) = reached
            if behind is None or not any(level.ahead or level.behind for level in behind):
                return behind
        raise UnsupportedFeatureError(
            "look-around at the edge of a terminal that would see into a JSON value",
            hint="part them by a text, or leave the look-around out",
        )


def _looks(mark: Mark, *, ahead: bool) -> bool:
    return isinstance(mark, Look) and mark.ahead == ahead


def _searched(mark: Mark) -> ByteDfa:
    """The texts behind whose end a look-behind finds what it looks for."""
    assert isinstance(mark, Look)
    return byte_dfa_from_dfa(dfa_from_regular(Concat((ANYTHING, mark.item))), utf8_sequences)


def _continued(mark: Mark) -> tuple[ByteDfa, int | None]:
    """The texts before which a look-ahead finds it, and the state that has all texts, if any."""
    assert isinstance(mark, Look)
    dfa = dfa_from_regular(Concat((mark.item, ANYTHING)))
    # States keep their order, those inside of a code point come behind them.
    all_texts = [
        state
        for state, row in enumerate(dfa.next.tolist())
        if dfa.label[state] != DEAD
        and set(row) == {state}
        and not ~CodePoints.of(bounds for chars in dfa.classes for bounds in chars.ranges)
    ]
    return byte_dfa_from_dfa(dfa, utf8_sequences), all_texts[0] if all_texts else None


class _Entry(NamedTuple):
    """A rule, entered in a state of the looks."""

    rule: int
    looks: _State


class _Passage(NamedTuple):
    """A rule, entered in one state of the looks and left in another."""

    entry: _Entry
    left: _State


class _Node(NamedTuple):
    """A state of a rule and one of the looks."""

    at: int
    looks: _State


def without_marks(
    automata: Mapping[int, Dfa], marks: Sequence[Mark], holes: Sequence[HoleText]
) -> dict[int, Dfa]:
    """The automata of texts in which what the marks ask for is so; rule 0 is the whole.

    Raises UnsupportedFeatureError where a look-around would see into a hole.
    """
    if len(marks) > MAX_MARKS:
        raise LimitExceededError(
            f"the terminals look around in {len(marks)} ways, more than {MAX_MARKS}",
            limit=MAX_MARKS,
            field="constraint",
        )
    return _Product(automata, _Looks(marks), holes).automata()


class _Product:
    def __init__(
        self, automata: Mapping[int, Dfa], looks: _Looks, holes: Sequence[HoleText]
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
        self._exits: dict[_Entry, dict[_State, None]] = {}
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
        self, entry: _Entry, node: _Node, chars: CodePoints, target: int, looks: _State | None
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

    def _exit(self, entry: _Entry, looks: _State) -> None:
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

    def _automaton(self, entry: _Entry, ends: Sequence[_State]) -> Dfa:
        """What a rule reads on its way to one of these ends."""
        nodes, accepting = self._nodes[entry], self._automata[entry.rule].accepting
        nfa = Nfa()
        # What is entered first is node 0.
        nfa.add_states(len(nodes))
        for node, chars, behind in self._edges[entry]:
            if chars:
                nfa.moves.add(nodes[node], nodes[behind])
                nfa.move_sets.append(nfa.sets.setdefault(chars, len(nfa.sets)))
            else:
                nfa.empties.add(nodes[node], nodes[behind])
        for node, callee, target in self._calls[entry]:
            for looks in self._exits[callee]:
                number = self._number(_Passage(callee, looks))
                nfa.moves.add(nodes[node], nodes[_Node(target, looks)])
                chars = letters([number])
                nfa.move_sets.append(nfa.sets.setdefault(chars, len(nfa.sets)))
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
