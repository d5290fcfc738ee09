"""The recogniser of grammars with holes, which other machines fill.

All machines share one table of rows. A state is one of four kinds, by its stack:

- No parse is inside a hole: row and stack are those of the grammar (``GrammarMachine``).
- The only parse is inside a hole: the row is one of the machine that fills it, and the stack is
  that machine's together with the continuation of the hole.
- All parses are inside holes in isomorphic rows, such as the strings of two schemas: the row is
  that of the first parse, and the stack finds the rows of the others by it.
- Otherwise the stack is the set of parses, and the row is the same for all such stacks: every byte
  leads to an exit action, which Python resolves by a step of each parse.

A number (``12``) is the only value that may end and also go on. If what may follow a hole begins
with a byte that continues the number, the hole is treated as one of several parses from its start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from guided.grammar.machine.calls import Calls
from guided.grammar.machine.composite_calls import CompositeCalls
from guided.grammar.machine.composite_stacks import CompositeStacks, Inside, IsomorphicParses
from guided.grammar.machine.continuations import END
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.machine.holes import Holes
from guided.grammar.network.network import Network
from guided.machine.parts import RecognizerLimits
from guided.machine.recognizer import Recognizer, State, StateSharing
from guided.machine.stack_transitions import FIRST_CONDITIONAL, NEEDS_EXACT_STATE
from guided.machine.table import END_ROW, TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend

__all__ = ["CompositeMachine"]

_BYTE_WORK: Final = 20
"""Units of work per parse and byte."""


class CompositeMachine(GrammarMachine):
    """Recognises the texts of a network whose holes are filled by other machines.

    ``fillings`` are these machines, by the number of the hole, all with their rows in ``table``. A
    *configuration* has states of the network and states in holes, which ``Holes`` numbers. Stacks
    are never truncated, so no continuation is unknown. A filling has no empty text, and its first
    byte counts nothing.
    """

    def __init__(
        self,
        network: Network,
        fillings: Sequence[Recognizer],
        limits: RecognizerLimits,
        table: TransitionTable,
    ) -> None:
        # Set before ``super().__init__``, which calls methods of this class.
        self.fillings = tuple(fillings)
        self.holes = Holes(network, self.fillings, table)
        self.hole_stacks = CompositeStacks(limits.max_stacks, self.fillings)
        """``stacks``, by its type here."""
        self._after_hole_cache: dict[int, State] = {}
        """Results of ``_state_after_hole``, by continuation."""
        inner = [filling.parts for filling in self.fillings]
        super().__init__(network, limits, table, self.hole_stacks, inner, self.holes)

    def _make_calls(self) -> Calls:
        self.hole_calls = CompositeCalls(self.network, self.continuations, self.rows, self.holes)
        """``calls``, by its type here."""
        return self.hole_calls

    @property
    def sharing(self) -> StateSharing:
        return _ParseSharing(self)

    # --- moving ---------------------------------------------------------------------------

    def step(self, state: State, byte: int) -> State | None:
        """Return the state after ``byte``, ``None`` if it is not allowed; may add rows.

        A single parse takes its exit if it does not read the byte. Sets of parses need not: they
        are closed under returns.
        """
        at: State | None = state
        while at is not None:
            several = self.hole_stacks.several.get(at.stack)
            if several is not None:
                return self._build_state(self._step_parses(several, byte))
            isomorphic = self.hole_stacks.isomorphic.get(at.stack)
            if isomorphic is not None:
                return self._step_isomorphic(isomorphic, at, byte)
            inside = self.hole_stacks.inside.get(at.stack)
            if inside is not None:
                after = self.fillings[inside.hole].step(_local_state(inside, at), byte)
                if after is not None:
                    return self.state_inside(inside, after)
            elif (target := self.table.step(at.row, byte)) != DEAD:
                return self._settle(at.stack, target)
            at = self.after_exit(at)
        return None

    def after_exit(self, state: State) -> State | None:
        """Return the state after the hole or the rules that end here; ``None`` if none may end."""
        inside = self.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().after_exit(state)
        if self.fillings[inside.hole].is_accepting(_local_state(inside, state)):
            return self._state_after_hole(inside.continuation)
        return None

    def _step_isomorphic(
        self, isomorphic: IsomorphicParses, state: State, byte: int
    ) -> State | None:
        """Return the state after a byte, from one whose parses are all in isomorphic rows.

        While no exit action is taken, row and count of the first parse stand for all. Otherwise the
        parses may become different, so each takes the step by itself.
        """
        target = self.table.step(state.row, byte)
        if target != DEAD and not self.table.exits[target]:
            # No exit action is taken, so all stacks stay the same.
            first = isomorphic.parses[0]
            after = self.fillings[first.hole].step(state._replace(stack=first.stack), byte)
            return None if after is None else after._replace(stack=state.stack)
        parses = self.hole_calls.return_closure(
            self.holes.isomorphic_parses(isomorphic, state, self.continuations)
        )
        return self._build_state(self._step_parses(parses, byte))

    def _several_parses(self, state: State) -> Mapping[int, int] | None:
        """Return all parses and what they return to: the continuation of each, by state.

        ``None`` if the state is one of the grammar alone, or a single parse inside a hole.
        """
        isomorphic = self.hole_stacks.isomorphic.get(state.stack)
        if isomorphic is not None:
            return self.hole_calls.return_closure(
                self.holes.isomorphic_parses(isomorphic, state, self.continuations)
            )
        return self.hole_stacks.several.get(state.stack)

    def state_inside(self, inside: Inside, state: State) -> State:
        """Return the state of this machine for a single parse that was inside a hole.

        ``state`` is that of the machine in the hole, and no fork (``Holes.leads_to_fork``). In
        END_ROW its text is complete, and the result is the state after the hole. ``inside`` has the
        hole and its continuation; its stack is not read.
        """
        if state.row == END_ROW:
            return self._state_after_hole(inside.continuation)
        stack = self.hole_stacks.intern_inside(inside._replace(stack=state.stack))
        return state._replace(stack=stack)

    def _state_after_hole(self, continuation: int) -> State:
        """Return the state after a hole with this continuation; cached."""
        found = self._after_hole_cache.get(continuation)
        if found is None:
            placed = self._close_and_place(self.continuations.return_from([continuation]))
            found = self._after_hole_cache[continuation] = self._settle(*placed)
        return found

    def is_accepting(self, state: State) -> bool:
        """Return whether the text may end here."""
        # Follows exits, as the text may end after a hole that may end.
        at: State | None = state
        while at is not None:
            parses = self._several_parses(at)
            if parses is not None:
                return END in parses
            if at.stack not in self.hole_stacks.inside and at.row in self.rows.may_end:
                return True
            at = self.after_exit(at)
        return False

    def only_byte(self, state: State) -> int | None:
        """Return the only byte that may follow, ``None`` if several may or the text may end."""
        several = self.hole_stacks.several.get(state.stack)
        if several is None:
            return super().only_byte(state)
        # The row of several parses leads on by every byte, so possible ones have to be tried.
        only: int | None = None
        for byte in self.holes.possible_bytes(several):
            if self._step_parses(several, byte):
                if only is not None:
                    return None
                only = byte
        return None if END in several else only

    def num_states_at_once(self, state: State) -> int:
        """Return how many states the text may be in, in the network and in holes.

        A text in one hole is in one state, even if it may end there.
        """
        if state.stack in self.hole_stacks.inside:
            return 1
        parses = self._several_parses(state)
        return super().num_states_at_once(state) if parses is None else len(parses)

    # --- transitions ---------------------------------------------------------------------------

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to; see ``Recognizer``.

        The stack says whose action it is: the grammar's, that of the machine in the hole, that of
        the first of isomorphic parses, or a byte (``Holes.any_byte_row``).
        """
        if self.hole_stacks.is_of_grammar(stack):
            return super().transition(stack, action)
        inside = self.hole_stacks.inside.get(stack)
        isomorphic = self.hole_stacks.isomorphic.get(stack)
        after: State | None
        if inside is not None:
            target, row = self.fillings[inside.hole].transition(inside.stack, action)
            if target == NEEDS_EXACT_STATE or row == DEAD:
                return target if target == NEEDS_EXACT_STATE else stack, DEAD
            after = self.state_inside(inside, State(target, row))
        elif isomorphic is not None:
            taken = self.holes.take_action(isomorphic, action)
            if taken is None:
                return NEEDS_EXACT_STATE, DEAD
            reached: dict[int, int] = {}
            for (hole, state), continuation in taken:
                self.hole_calls.add_hole_state(reached, hole, state, continuation)
            after = self._build_state(reached)
        else:
            several = self.hole_stacks.several[stack]
            after = self._build_state(self._step_parses(several, action - FIRST_CONDITIONAL))
        if after is None:
            return stack, DEAD
        # Transitions are cached without counts and texts.
        return (NEEDS_EXACT_STATE, DEAD) if after.count or after.texts else (after.stack, after.row)

    def _settle(self, stack: int, row: int) -> State:
        # Only in stacks of the grammar alone: in others, actions mean something else, and machines
        # in holes have settled their own rows.
        while self.hole_stacks.is_of_grammar(stack) and self.table.exits[row]:
            stack, row = self.resolve(stack, int(self.table.label[row]))
        return State(stack, row)

    # --- configurations ---------------------------------------------------------------------

    def _build_state(self, configuration: dict[int, int]) -> State | None:
        """Return the state of a configuration, whose calls are added here; ``None`` if it is empty.

        Unlike results of ``_close_and_place`` it may have a count, or be isomorphic parses.
        """
        if not configuration:
            return None
        closure = self.hole_calls.full_closure(configuration)
        only = self.hole_calls.single_hole_state(closure)
        if only is None:
            kept = sorted(state for state in closure if self.hole_calls.must_keep(state))
            isomorphic = self.holes.find_isomorphic(kept, closure, self.rows)
            if isomorphic is None:
                return self._settle(*self._place(closure))
            _, first = self.holes.hole_state(kept[0])
            return State(self.hole_stacks.intern_isomorphic(isomorphic), first.row, first.count)
        hole, state = self.holes.hole_state(only)
        stack = self.hole_stacks.intern_inside(Inside(hole, state.stack, closure[only]))
        return state._replace(stack=stack)

    def _place(self, closure: dict[int, int]) -> tuple[int, int]:
        """Return stack and row of a configuration that has its calls and is not empty."""
        if all(state < self.network.first_hole for state in closure):
            return super()._place(closure)
        only = self.hole_calls.single_hole_state(closure)
        if only is not None:
            hole, state = self.holes.hole_state(only)
            assert not state.count, "texts of holes begin with a byte that counts nothing"
            inside = Inside(hole, state.stack, closure[only])
            return self.hole_stacks.intern_inside(inside), state.row
        return self._place_several(self.hole_calls.return_closure(closure))

    def _place_several(self, parses: Mapping[int, int]) -> tuple[int, int]:
        """Return stack and row of several parses, which are closed under calls and returns."""
        kept = {
            state: continuation
            for state, continuation in parses.items()
            if self.hole_calls.must_keep(state)
        }
        return self.hole_stacks.intern_several(kept), self.holes.any_byte_row()

    def _close_and_place(self, configuration: dict[int, int]) -> tuple[int, int]:
        return self._place(self.hole_calls.full_closure(configuration))

    def _after_byte(self, items: list[tuple[int, int]], byte: int) -> dict[int, int]:
        # The base's method knows no states in holes, which may follow an item. The items are closed
        # under calls, so only returns have to be added.
        closure: dict[int, int] = {}
        for item in items:
            self.continuations.add(closure, *item)
        return self._step_parses(self.hole_calls.return_closure(closure), byte)

    def _step_parses(self, closure: Mapping[int, int], byte: int) -> dict[int, int]:
        """Return the configuration after a byte, empty if the byte is not allowed.

        ``closure`` is closed under calls and returns (``CompositeCalls.return_closure``), the
        result is not.
        """
        spend(_BYTE_WORK * len(closure))
        reached: dict[int, int] = {}
        for state, continuation in closure.items():
            if state >= self.network.first_hole:
                hole, at = self.holes.hole_state(state)
                target = self.fillings[hole].step(at, byte)
                if target is not None:
                    self.hole_calls.add_hole_state(reached, hole, target, continuation)
            elif state != END and (reached_state := self.network.step(state, byte)) != DEAD:
                self.continuations.add(reached, reached_state, continuation)
        return reached

    # --- shortest completions ---------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        inside = self.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().bytes_left(state)
        left = self.fillings[inside.hole].bytes_left(_local_state(inside, state))
        return left + self.continuations.distance[inside.continuation]

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the text from here, close to as few as possible."""
        inside = self.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().shortest_completion(state)
        rest = self.fillings[inside.hole].shortest_completion(_local_state(inside, state))
        returns = self.continuations.frames[inside.continuation]
        return rest + self._completions.shortest_completion([*returns.items()])

    def parses(self, state: State) -> list[tuple[int, int]]:
        """Return the states that the text may be in, each with its continuation.

        Not for a single parse inside a hole, whose stack has no slots.
        """
        parses = self._several_parses(state)
        return super().parses(state) if parses is None else list(parses.items())


class _ParseSharing(StateSharing):
    """Divides states with several parses into states whose masks are mostly cached already."""

    def __init__(self, machine: CompositeMachine) -> None:
        self._machine = machine

    def parses(self, state: State) -> tuple[State, ...]:
        """Return each parse in a hole as a separate state, and all others as one state or two.

        Together the states allow the same bytes as ``state``; for the end of the text the caller
        uses ``is_accepting``. Empty if the state is not a set of parses, or none is in a hole but
        forks (``Holes.leads_to_fork``), which are among the others: so these are not divided again.
        """
        machine, stacks = self._machine, self._machine.hole_stacks
        several = stacks.several.get(state.stack)
        if several is None:
            return ()
        alone: list[State] = []
        rules: dict[int, int] = {}
        others: dict[int, int] = {}
        first_hole = machine.network.first_hole
        for number, continuation in several.items():
            if number >= first_hole:
                at = machine.holes.hole_state(number)
                if machine.holes.leads_to_fork(at, machine.rows):
                    others[number] = continuation
                else:
                    stack = stacks.intern_inside(Inside(at.hole, at.state.stack, continuation))
                    alone.append(at.state._replace(stack=stack))
            # ``several`` is closed under calls and returns, so states without moves are dropped.
            elif number != END and (machine.network.moves[number] != DEAD).any():
                # Not a row of the grammar for states with calls: its exit action would enter the
                # called rules a second time.
                (others if machine.network.calls[number] else rules)[number] = continuation
        if not alone:
            return ()
        if rules:
            alone.append(machine._settle(*machine._place(rules)))
        if others:
            # All sets of parses have the same row (``Holes.any_byte_row``).
            alone.append(State(stacks.intern_several(others), state.row))
        return tuple(alone)

    def overlaid_state(self, state: State, row: int) -> State:
        """Return the state in the row that the row of ``state`` overlays."""
        inside = self._machine.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().overlaid_state(state, row)
        filling = self._machine.fillings[inside.hole]
        below = filling.sharing.overlaid_state(_local_state(inside, state), row)
        return self._machine.state_inside(inside, below)


def _local_state(inside: Inside, state: State) -> State:
    """Return the state of the machine in the hole."""
    return state._replace(stack=inside.stack)
