"""The holes of a grammar: numbers of the states inside them, and where their texts may end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from guided.grammar.machine.composite_stacks import Inside, IsomorphicParses
from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.grammar_rows import GrammarRows
from guided.grammar.machine.isomorphic_rows import IsomorphicRows, Isomorphism
from guided.grammar.network.network import Network
from guided.machine.recognizer import Recognizer, State
from guided.machine.special_bytes import SPECIAL_MARK
from guided.machine.stack_transitions import FIRST_CONDITIONAL, NEEDS_EXACT_STATE
from guided.machine.table import TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend

__all__ = ["HoleState", "Holes"]

_ROW_WORK: Final = 20
"""Units of work for each row that is examined (``spend``)."""
_BYTES_OF_TEXTS: Final = (*range(0xC0), *range(0xC2, 0xF5), SPECIAL_MARK)
"""The bytes of UTF-8, and that of special tokens; a row may have at most 255 moves."""


class HoleState(NamedTuple):
    """A state of the machine that fills a hole."""

    hole: int
    state: State


class _Remembered:
    """How many kilobytes of texts the states in holes remember, as the size of a pool.

    ``MachineParts.nbytes`` takes each item of a pool for about a thousand bytes.
    """

    def __init__(self) -> None:
        self.nbytes = 0

    def __len__(self) -> int:
        return self.nbytes // 1_000


class Holes:
    """Numbers the states inside the holes of a grammar, and steps and compares them.

    ``fillings`` are the machines by hole; their rows and those of the grammar are in ``table``. The
    start of a hole has the number of the network's state for it, from ``first_hole`` on; other
    states in holes follow those of the network.
    """

    def __init__(
        self, network: Network, fillings: Sequence[Recognizer], table: TransitionTable
    ) -> None:
        self.fillings: Final = fillings
        self._network = network
        self._first: Final = network.first_hole
        self._table = table
        self._states = [HoleState(hole, each.start) for hole, each in enumerate(fillings)]
        """By number less ``_first``; numbers are never reused."""
        self._numbers = {state: self._first + at for at, state in enumerate(self._states)}
        """The inverse of ``_states``."""
        self.remembered: Final = _Remembered()
        """The texts of ``_states``: of a long name, each beginning that was read."""
        self._forks_by_hole: dict[int, frozenset[int]] = {}
        """Results of ``_fork_rows``, by hole."""
        self._isomorphic = IsomorphicRows(table)
        self._any_byte: int | None = None
        """``any_byte_row``, ``None`` until it is first needed."""

    def hole_state(self, number: int) -> HoleState:
        """Return the state with a number."""
        return self._states[number - self._first]

    def intern(self, state: HoleState) -> int:
        """Return the number of a state; equal states have equal numbers."""
        at = self._first + len(self._states)
        number = self._numbers.setdefault(state, at)
        if number == at:
            self._states.append(state)
            self.remembered.nbytes += sum([len(text) for text in state.state.texts])
        return number

    def may_end(self, number: int) -> bool:
        """Return whether the text of the hole may end in a state."""
        hole, state = self.hole_state(number)
        return self.fillings[hole].is_accepting(state)

    def bytes_left(self, number: int) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        hole, state = self.hole_state(number)
        return self.fillings[hole].bytes_left(state)

    def shortest_completion(self, number: int) -> bytes:
        """Return bytes that complete the text of the hole, nearly as few as possible."""
        hole, state = self.hole_state(number)
        return self.fillings[hole].shortest_completion(state)

    def possible_bytes(self, states: Iterable[int]) -> set[int]:
        """Return a superset of the bytes that may follow one of the states.

        ``states`` are those of a configuration that is closed under calls and returns; END may be
        among them.
        """
        found: set[int] = set()
        network, table = self._network, self._table
        for number in states:
            if number >= self._first:
                row = self.hole_state(number).state.row
                # After an exit action any byte might follow.
                has_exit = table.label[row] != DEAD
                found.update(range(256) if has_exit else table.edges(row))
            elif number != END:
                moves = network.moves[number, network.byte_class]
                found.update((moves != DEAD).nonzero()[0].tolist())
        return found

    def leads_to_fork(self, at: HoleState, rows: GrammarRows) -> bool:
        """Return whether the text may reach a *fork*: a byte that may be read in the hole or after
        it.

        For example a number, ``1``, before a ``2``. A single parse is moved by its row alone, where
        no exit is tried if the byte is read, and is not examined again. So such a text is one of
        several parses from its start, and what leads to no fork now never becomes one. True without
        need costs only time; False must be right. Only a state with the stack of the start can be a
        fork: inside a container the text cannot end. ``rows`` are those of the composite machine,
        which are made after this.
        """
        at_start = at.state.stack == self.fillings[at.hole].start.stack
        return at_start and at.state.row in self._fork_rows(at.hole, rows)

    def find_isomorphic(
        self, states: Sequence[int], continuations: Mapping[int, int], rows: GrammarRows
    ) -> IsomorphicParses | None:
        """Return the parses if their rows are all isomorphic to the first, else ``None``.

        ``states``, at least one, are sorted; ``continuations`` has those of all states. ``None``
        also if a state is not in a hole, has a different count or remembered texts, or is a fork.
        """
        if states[0] < self._first:  # END and states of the network come first
            return None
        first = self.hole_state(states[0]).state
        parses: list[Inside] = []
        maps: list[Isomorphism] = []
        for number in states:
            at = self.hole_state(number)
            hole, state = at
            if state.count != first.count or state.texts or self.leads_to_fork(at, rows):
                return None
            each = self._isomorphic.find(first.row, state.row)
            if each is None:
                return None
            maps.append(each)
            parses.append(Inside(hole, state.stack, continuations[number]))
        return IsomorphicParses(tuple(parses), tuple(maps))

    def isomorphic_parses(
        self, isomorphic: IsomorphicParses, state: State, continuations: Continuations
    ) -> dict[int, int]:
        """Return the parses of a state in isomorphic rows: continuations by state.

        ``state`` has the row of the first parse, from which ``maps`` give those of the others, and
        the count of all. Equal states are joined.
        """
        found: dict[int, int] = {}
        for parse, each in zip(isomorphic.parses, isomorphic.maps, strict=True):
            local = State(parse.stack, each.rows[state.row], state.count)
            number = self.intern(HoleState(parse.hole, local))
            continuations.add(found, number, parse.continuation)
        return found

    def take_action(
        self, isomorphic: IsomorphicParses, action: int
    ) -> list[tuple[HoleState, int]] | None:
        """Return the states after an exit action, with continuations, of parses that may take it.

        ``action`` is that of the first parse; the maps give those of the others. ``None`` if a
        result depends on a text, or has one to remember.
        """
        taken: list[tuple[HoleState, int]] = []
        for parse, each in zip(isomorphic.parses, isomorphic.maps, strict=True):
            filling = self.fillings[parse.hole]
            stack, row = filling.transition(parse.stack, each.actions[action])
            if stack == NEEDS_EXACT_STATE or filling.parts.stacks.num_texts(stack):
                return None
            if row != DEAD:
                taken.append((HoleState(parse.hole, State(stack, row)), parse.continuation))
        return taken

    def any_byte_row(self) -> int:
        """Return the row of all states with several parses: each byte leads to an exit action.

        The action of byte ``b`` is ``FIRST_CONDITIONAL + b``; ``CompositeMachine.transition`` reads
        the byte from it. Actions mean this only in stacks of several parses.
        """
        if self._any_byte is None:
            add = self._table.add_row
            self._any_byte = add(
                {byte: add({}, label=FIRST_CONDITIONAL + byte) for byte in _BYTES_OF_TEXTS}
            )
        return self._any_byte

    def _fork_rows(self, hole: int, rows: GrammarRows) -> frozenset[int]:
        """Return the rows of a hole's outermost value from which a fork is reachable; cached.

        A fork is a row with an exit action that also reads a byte that may follow the hole. All
        rows of the outermost value exist since the machine of the hole was made. Of ``rows`` only
        ``follow`` is read.
        """
        found = self._forks_by_hole.get(hole)
        if found is None:
            rule = self._network.rule_of(self._first + hole)
            is_after = rows.follow[rule, self._network.byte_class]
            follow = set(is_after.nonzero()[0].tolist())
            found = self._forks_by_hole[hole] = self._find_fork_rows(hole, follow)
        return found

    def _find_fork_rows(self, hole: int, follow: set[int]) -> frozenset[int]:
        """Return the rows that lead to one with an exit action that also reads a ``follow`` byte.

        ``follow`` are the bytes that may follow the hole. Searches forward from the start of the
        hole for such rows, then backward from these.
        """
        table, before, worklist = self._table, dict[int, list[int]](), list[int]()
        if follow:
            worklist.append(self.fillings[hole].start.row)
        forks: list[int] = []
        seen = set(worklist)
        for row in worklist:
            spend(_ROW_WORK)
            edges = table.edges(row)
            if table.label[row] != DEAD and not follow.isdisjoint(edges):
                forks.append(row)
            for target in set(edges.values()):
                before.setdefault(target, []).append(row)
                if target not in seen:
                    seen.add(target)
                    worklist.append(target)
        found = set(forks)
        for row in forks:
            for source in before.get(row, ()):
                if source not in found:
                    found.add(source)
                    forks.append(source)
        return frozenset(found)
