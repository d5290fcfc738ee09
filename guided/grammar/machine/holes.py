"""The holes of a grammar: states inside them, numbered after the states of its network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from guided.grammar.machine.composite_stacks import Inside, IsomorphicParses
from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.grammar_rows import GrammarRows
from guided.grammar.machine.isomorphic_rows import IsomorphicRows, Isomorphism
from guided.grammar.network.network import Network
from guided.machine.pushdown import PushdownMachine
from guided.machine.recognizer import State
from guided.machine.special_bytes import SPECIAL_MARK
from guided.machine.stack_transitions import EXACT, FIRST_UNSURE
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["HoleState", "Holes"]

_ROW_WORK: Final = 20
"""Units of work for each row that is looked at (``spend``)."""
_BYTES_OF_TEXTS: Final = (*range(0xC0), *range(0xC2, 0xF5), SPECIAL_MARK)
"""The bytes that UTF-8 can contain, and that of special tokens; a row leads on by at most 255."""


class HoleState(NamedTuple):
    """A state of the machine that fills a hole."""

    hole: int
    state: State


class Holes:
    """Numbers the states in the holes of one grammar, and knows where holes may end or continue.

    ``fillings`` are by hole; the rows of all of them lie in ``table``, beside those of the grammar.
    """

    def __init__(
        self, network: Network, fillings: Sequence[PushdownMachine], table: TransitionTable
    ) -> None:
        self.fillings: Final = fillings
        self._network = network
        self._first: Final = network.first_hole
        self._table = table
        # The states of the network that stand for holes are the starts of what fills them, with the
        # same numbers; other states come after them.
        self._states = [HoleState(hole, each.start) for hole, each in enumerate(fillings)]
        """By number, less that of the first; numbers are never reused."""
        self._numbers = {state: self._first + at for at, state in enumerate(self._states)}
        """The inverse of ``_states``."""
        self._forks: dict[int, frozenset[int]] = {}
        """The results of ``_forks_of`` by hole."""
        self._isomorphic = IsomorphicRows(table)
        self._any_byte: int | None = None
        """``any_byte_row``, ``None`` until it is first needed."""

    def at(self, number: int) -> HoleState:
        """Return the state with a number."""
        return self._states[number - self._first]

    def number(self, state: HoleState) -> int:
        """Return the number of a state, a new one if it has none yet."""
        at = self._first + len(self._states)
        number = self._numbers.setdefault(state, at)
        if number == at:
            self._states.append(state)
        return number

    def may_end(self, number: int) -> bool:
        """Return whether the text of a hole may end in a state."""
        hole, state = self.at(number)
        return self.fillings[hole].is_accepting(state)

    def bytes_left(self, number: int) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        hole, state = self.at(number)
        return self.fillings[hole].bytes_left(state)

    def shortest_completion(self, number: int) -> bytes:
        """Return bytes that complete the text of a hole from a state, nearly as few as possible."""
        hole, state = self.at(number)
        return self.fillings[hole].shortest_completion(state)

    def onward(self, states: Iterable[int]) -> set[int]:
        """Return all bytes that may follow some of the states, and perhaps others.

        ``states`` are all those of a configuration that has its calls and returns, perhaps with
        END, which nothing follows.
        """
        found: set[int] = set()
        network, table = self._network, self._table
        for number in states:
            if number >= self._first:
                row = self.at(number).state.row
                # Finding what follows an exit action takes more: any byte might.
                is_open = table.label[row] != DEAD
                found.update(range(256) if is_open else table.edges(row))
            elif number != END:
                moves = network.moves[number, network.byte_class]
                found.update((moves != DEAD).nonzero()[0].tolist())
        return found

    def is_fork(self, at: HoleState, rows: GrammarRows) -> bool:
        """Return whether a text in a hole may reach a byte that continues both in and after it.

        Such a text, for example the number ``1`` before ``2``, is one of several parses from the
        start. Only states with the stack of the start can be forks: inside a container the text of
        the hole cannot end. ``rows`` are the machine's, which is made after this.
        """
        at_start = at.state.stack == self.fillings[at.hole].start.stack
        return at_start and at.state.row in self._forks_of(at.hole, rows)

    def isomorphic(
        self, states: Sequence[int], continuations: Mapping[int, int], rows: GrammarRows
    ) -> IsomorphicParses | None:
        """Return the parses of states with a continuation each, if their rows are all isomorphic.

        ``states``, at least one, are sorted: so END and those of the network come first, and one
        look shows whether there are any. ``continuations`` has all of them by state. ``None`` if
        some are no states in holes, differ in their counts, remember texts, or are forks, or if
        some row is not isomorphic to the first, which the order determines.
        """
        if states[0] < self._first:
            return None
        first = self.at(states[0]).state
        parses: list[Inside] = []
        maps: list[Isomorphism] = []
        for number in states:
            at = self.at(number)
            hole, state = at
            if state.count != first.count or state.texts or self.is_fork(at, rows):
                return None
            each = self._isomorphic.of(first.row, state.row)
            if each is None:
                return None
            maps.append(each)
            parses.append(Inside(hole, state.stack, continuations[number]))
        return IsomorphicParses(tuple(parses), tuple(maps))

    def parses(
        self, isomorphic: IsomorphicParses, state: State, continuations: Continuations
    ) -> dict[int, int]:
        """Return the parses of a state in isomorphic rows, as states with a continuation each.

        The row of ``state`` is the first parse's, and ``maps`` find those of the others by it; its
        count is that of all. Parses that reach one state in one hole are joined.
        """
        found: dict[int, int] = {}
        for parse, each in zip(isomorphic.parses, isomorphic.maps, strict=True):
            local = State(parse.stack, each.rows[state.row], state.count)
            number = self.number(HoleState(parse.hole, local))
            continuations.add(found, number, parse.continuation)
        return found

    def after_action(
        self, isomorphic: IsomorphicParses, action: int
    ) -> list[tuple[HoleState, int]] | None:
        """Return where an action leads from each parse that may take it, with its continuation.

        ``action`` is one of a row that the first parse may be in, so each map has it. ``None``
        if that depends on a text, or has one to be remembered; empty if none may take it.
        """
        taken: list[tuple[HoleState, int]] = []
        for parse, each in zip(isomorphic.parses, isomorphic.maps, strict=True):
            filling = self.fillings[parse.hole]
            stack, row = filling.transition(parse.stack, each.actions[action])
            if stack == EXACT or filling.parts.stacks.depth(stack):
                return None
            if row != DEAD:
                taken.append((HoleState(parse.hole, State(stack, row)), parse.continuation))
        return taken

    def any_byte_row(self) -> int:
        """Return the one row of all states of several parses: each byte leads to an exit action.

        The action of byte ``b`` is ``FIRST_UNSURE + b``; ``CompositeMachine.transition`` reads the
        byte from it. In stacks of several parses actions mean this, whatever they mean in others.
        """
        if self._any_byte is None:
            add = self._table.add_row
            self._any_byte = add(
                {byte: add({}, label=FIRST_UNSURE + byte) for byte in _BYTES_OF_TEXTS}
            )
        return self._any_byte

    def _forks_of(self, hole: int, rows: GrammarRows) -> frozenset[int]:
        """Return the rows of a hole's first value from which a text may reach a fork.

        A fork is a row that may be left by its exit for a byte that it also reads. Found once for
        each hole: its first value was laid down when its machine was made, and only ``follow`` of
        ``rows`` is read, which depends only on the network.
        """
        found = self._forks.get(hole)
        if found is None:
            rule = self._network.rule_of(self._first + hole)
            is_after = rows.follow[rule, self._network.byte_class]
            after = set(is_after.nonzero()[0].tolist())
            found = self._forks[hole] = self._leading_to_forks(hole, after)
        return found

    def _leading_to_forks(self, hole: int, after: set[int]) -> frozenset[int]:
        """Return the rows that lead to one with an exit action that also reads a byte of ``after``.

        ``after`` are the bytes that may follow the hole. Searches forward from the start of the
        hole for such rows, then backward from these for all that lead there.
        """
        table, before, waiting = self._table, dict[int, list[int]](), list[int]()
        if after:
            waiting.append(self.fillings[hole].start.row)
        forks: list[int] = []
        seen = set(waiting)
        for row in waiting:
            spend(_ROW_WORK)
            edges = table.edges(row)
            if table.label[row] != DEAD and not after.isdisjoint(edges):
                forks.append(row)
            for target in set(edges.values()):
                before.setdefault(target, []).append(row)
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        found = set(forks)
        for row in forks:
            for source in before.get(row, ()):
                if source not in found:
                    found.add(source)
                    forks.append(source)
        return frozenset(found)
