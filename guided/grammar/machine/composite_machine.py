"""The recogniser of grammars with holes: texts inside which other machines read.

All share one table of rows. While only one parse is left, and it is inside a hole, a row is one of
the machine that fills the hole, and the stack is that machine's with what follows the hole: walks
run through it as if it stood alone. If several parses are left and one of them is inside a hole,
the stack is all of them; there is one row for that, in which every byte leads to an exit action
that Python resolves. But where all are in isomorphic rows, such as the strings of two schemas, the
row is that of the first, and the stack finds the rows of the others by it.

Numbers (``12``) are the only values that may end and continue as well. If what follows a hole
may begin with a byte that also continues the number, they are read as one of several parses from
the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from guided.grammar.machine.calls import Calls
from guided.grammar.machine.completions import Completions
from guided.grammar.machine.composite_calls import CompositeCalls
from guided.grammar.machine.composite_stacks import CompositeStacks, Inside, IsomorphicParses
from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.machine.holes import Holes
from guided.grammar.network.network import Network
from guided.machine.parts import RecognizerLimits
from guided.machine.pushdown import PushdownMachine
from guided.machine.recognizer import State, StateSharing
from guided.machine.stack_transitions import EXACT, FIRST_UNSURE
from guided.machine.table import END_ROW, TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["CompositeMachine"]

_BYTE_WORK: Final = 20
"""Units of work for each state in which a byte is tried."""


class CompositeMachine(GrammarMachine):
    """Recognises the texts of a network whose holes are filled by other machines.

    ``fillings`` are these machines, by the number of the hole, all on ``table``. A *configuration*
    here has states of the network and states in holes, which ``Holes`` numbers after them. Stacks
    are never truncated, so no continuation is unknown.
    """

    def __init__(
        self,
        network: Network,
        fillings: Sequence[PushdownMachine],
        table: TransitionTable,
        limits: RecognizerLimits | None = None,
    ) -> None:
        limits = limits or RecognizerLimits()
        # Before the base is made, as that calls the methods below for the first state.
        self.fillings = tuple(fillings)
        self.holes = Holes(network, self.fillings, table)
        self.hole_stacks = CompositeStacks(limits.max_stacks, self.fillings)
        """The same as ``stacks``."""
        self._after_hole: dict[int, State] = {}
        """The state after a hole, by continuation, see ``_after``."""
        inner = [filling.parts for filling in self.fillings]
        super().__init__(network, limits, table, self.hole_stacks, inner)

    def _made_calls(self) -> Calls:
        self.hole_calls = CompositeCalls(self.network, self.continuations, self.rows, self.holes)
        """The same as ``calls``."""
        return self.hole_calls

    def _shared(self) -> StateSharing:
        return _Parses(self)

    # --- moving ---------------------------------------------------------------------------

    def step(self, state: State, byte: int) -> State | None:
        """Return the state after ``byte``, ``None`` if it is not allowed; may lay down rows.

        A single parse is left by its exit where it does not read the byte. Several are never left:
        they include all that may follow one of them.
        """
        at: State | None = state
        while at is not None:
            several = self.hole_stacks.several.get(at.stack)
            if several is not None:
                return self._state_of(self._moved(several, byte))
            isomorphic = self.hole_stacks.isomorphic.get(at.stack)
            if isomorphic is not None:
                return self._step_isomorphic(isomorphic, at, byte)
            inside = self.hole_stacks.inside.get(at.stack)
            if inside is not None:
                after = self.fillings[inside.hole].step(_local(inside, at), byte)
                if after is not None:
                    return self.placed_inside(inside, after)
            elif (target := self.table.step(at.row, byte)) != DEAD:
                return self._settled(at.stack, target)
            at = self.after_exit(at)
        return None

    def after_exit(self, state: State) -> State | None:
        """Return the state after what ends here, a hole or rules; ``None`` if nothing ends."""
        inside = self.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().after_exit(state)
        if self.fillings[inside.hole].is_accepting(_local(inside, state)):
            return self._after(inside.continuation)
        return None

    def _step_isomorphic(
        self, isomorphic: IsomorphicParses, state: State, byte: int
    ) -> State | None:
        """Return the state after a byte, from one whose parses are all in isomorphic rows.

        Inside the automata the row of the first parse moves for all, and its count, which all
        share, decides for all. If it ends, or would have to be left, the parses may part: they
        are written out and moved one by one.
        """
        target = self.table.step(state.row, byte)
        if target != DEAD and not self.table.exits[target]:
            # No exit action is taken, so the stack of the first stays as it is, and so do all.
            first = isomorphic.parses[0]
            after = self.fillings[first.hole].step(state._replace(stack=first.stack), byte)
            return None if after is None else after._replace(stack=state.stack)
        parses = self.hole_calls.with_returns(
            self.holes.parses(isomorphic, state, self.continuations)
        )
        return self._state_of(self._moved(parses, byte))

    def _parses(self, state: State) -> Mapping[int, int] | None:
        """Return all parses with all that may follow them: the continuation of each by state.

        ``None`` if the state is one of the grammar alone, or has a single parse inside a hole.
        """
        isomorphic = self.hole_stacks.isomorphic.get(state.stack)
        if isomorphic is not None:
            return self.hole_calls.with_returns(
                self.holes.parses(isomorphic, state, self.continuations)
            )
        return self.hole_stacks.several.get(state.stack)

    def placed_inside(self, inside: Inside, state: State) -> State:
        """Return the state of this machine where the only parse left is inside a hole.

        ``state`` is that of the machine in the hole. ``inside`` says which hole it is and what
        follows it; its own stack is not read.
        """
        if state.row == END_ROW:
            return self._after(inside.continuation)
        stack = self.hole_stacks.of_inside(inside._replace(stack=state.stack))
        return state._replace(stack=stack)

    def _after(self, continuation: int) -> State:
        """Return the state after a hole, at the start of what follows; kept by the continuation."""
        found = self._after_hole.get(continuation)
        if found is None:
            started = self._started(self.continuations.returned([continuation]))
            found = self._after_hole[continuation] = self._settled(*started)
        return found

    def is_accepting(self, state: State) -> bool:
        """Return whether the text may end here."""
        # A single parse inside a hole ends with what fills it, so its exits are followed.
        at: State | None = state
        while at is not None:
            parses = self._parses(at)
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
        # The row of several parses reads every byte, so they have to be tried.
        only: int | None = None
        for byte in self.holes.onward(several):
            if self._moved(several, byte):
                if only is not None:
                    return None
                only = byte
        return None if END in several else only

    def num_parses(self, state: State) -> int:
        """Return how many states of the network and of what fills its holes the text may be in."""
        if state.stack in self.hole_stacks.inside:
            return 1
        parses = self._parses(state)
        return super().num_parses(state) if parses is None else len(parses)

    # --- transitions ---------------------------------------------------------------------------

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the stack and the row that an exit action leads to; see ``Recognizer``.

        What the action means depends on the stack: it is one of the grammar, of the machine in the
        hole, of that of the first of isomorphic parses, or a byte (``Holes.any_byte_row``).
        """
        if self.hole_stacks.is_of_grammar(stack):
            return super().transition(stack, action)
        inside = self.hole_stacks.inside.get(stack)
        isomorphic = self.hole_stacks.isomorphic.get(stack)
        after: State | None
        if inside is not None:
            target, row = self.fillings[inside.hole].transition(inside.stack, action)
            if row == DEAD:
                return EXACT if target == EXACT else stack, DEAD
            after = self.placed_inside(inside, State(target, row))
        elif isomorphic is not None:
            taken = self.holes.after_action(isomorphic, action)
            if taken is None:
                return EXACT, DEAD
            reached: dict[int, int] = {}
            for (hole, state), continuation in taken:
                self.hole_calls.reach(reached, hole, state, continuation)
            after = self._state_of(reached)
        else:
            several = self.hole_stacks.several[stack]
            after = self._state_of(self._moved(several, action - FIRST_UNSURE))
        if after is None:
            return stack, DEAD
        # A count or a text that has begun does not fit into a transition.
        return (EXACT, DEAD) if after.count or after.texts else (after.stack, after.row)

    def _settled(self, stack: int, row: int) -> State:
        # The base may leave rows that read no byte only in stacks of the grammar alone: in others
        # actions mean something else, and rows stay as their own machine left them.
        while self.hole_stacks.is_of_grammar(stack) and self.table.exits[row]:
            stack, row = self.resolve(stack, int(self.table.label[row]))
        return State(stack, row)

    # --- configurations ---------------------------------------------------------------------

    def _state_of(self, configuration: dict[int, int]) -> State | None:
        """Return the state of a configuration, ``None`` for an empty one; its calls are added here.

        Unlike the result of ``_started``, it may have a count, and isomorphic parses stay together.
        """
        if not configuration:
            return None
        closed = self.hole_calls.closed(configuration)
        lone = self.hole_calls.lone(closed)
        if lone is None:
            kept = sorted(state for state in closed if self.hole_calls.is_parse(state))
            isomorphic = self.holes.isomorphic(kept, closed, self.rows)
            if isomorphic is None:
                return self._settled(*self._placed(closed))
            _, first = self.holes.at(kept[0])
            return State(self.hole_stacks.of_isomorphic(isomorphic), first.row, first.count)
        hole, state = self.holes.at(lone)
        stack = self.hole_stacks.of_inside(Inside(hole, state.stack, closed[lone]))
        return state._replace(stack=stack)

    def _placed(self, closed: dict[int, int]) -> tuple[int, int]:
        """Return stack and row of a configuration that has its calls and is not empty.

        None of its parses is in a hole, its only parse is, or several are left, some in holes.
        """
        if all(state < self.network.first_hole for state in closed):
            return super()._placed(closed)
        lone = self.hole_calls.lone(closed)
        if lone is not None:
            hole, state = self.holes.at(lone)
            assert not state.count, "texts of holes begin with a byte that counts nothing"
            inside = Inside(hole, state.stack, closed[lone])
            return self.hole_stacks.of_inside(inside), state.row
        return self._placed_several(self.hole_calls.with_returns(closed))

    def _placed_several(self, parses: Mapping[int, int]) -> tuple[int, int]:
        """Return stack and row of several parses; every byte leads from the row to an exit action.

        ``parses`` has its calls and returns: stacks of several are never left by an exit.
        """
        kept = {state: after for state, after in parses.items() if self.hole_calls.is_parse(state)}
        return self.hole_stacks.of_several(kept), self.holes.any_byte_row()

    def _started(self, configuration: dict[int, int]) -> tuple[int, int]:
        return self._placed(self.hole_calls.closed(configuration))

    def _after_byte(self, items: list[tuple[int, int]], byte: int) -> dict[int, int]:
        # What follows an item may be a hole, whose states the base's method does not know. All
        # calls of the items have begun, so only returns are to be added.
        closed: dict[int, int] = {}
        for item in items:
            self.continuations.add(closed, *item)
        return self._moved(self.hole_calls.with_returns(closed), byte)

    def _moved(self, closed: Mapping[int, int], byte: int) -> dict[int, int]:
        """Return the states that a byte leads to, each with the number of what follows it.

        ``closed`` has its calls and returns, see ``CompositeCalls.with_returns``: ways that are not
        in it are lost. The result lacks its calls and returns, and is empty if the byte is not
        allowed.
        """
        spend(_BYTE_WORK * len(closed))
        reached: dict[int, int] = {}
        for state, after in closed.items():
            if state >= self.network.first_hole:
                hole, at = self.holes.at(state)
                target = self.fillings[hole].step(at, byte)
                if target is not None:
                    self.hole_calls.reach(reached, hole, target, after)
            elif state != END and (reached_state := self.network.step(state, byte)) != DEAD:
                self.continuations.add(reached, reached_state, after)
        return reached

    # --- shortest completions ---------------------------------------------------------------

    def _made_completions(self) -> Completions:
        return _CompositeCompletions(self.network, self.continuations, self.holes)

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``: to the hole's end, then on."""
        inside = self.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().bytes_left(state)
        left = self.fillings[inside.hole].bytes_left(_local(inside, state))
        return left + self.continuations.left[inside.continuation]

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the text from here, close to as few as possible."""
        inside = self.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().shortest_completion(state)
        rest = self.fillings[inside.hole].shortest_completion(_local(inside, state))
        returns = self.continuations.frames[inside.continuation]
        return rest + self._completions.shortest([*returns.items()])

    def parses(self, state: State) -> list[tuple[int, int]]:
        """Return the states that the text may be in, each with its continuation.

        Not for a state with a single parse inside a hole, whose stack has no slots: callers use the
        machine in the hole.
        """
        parses = self._parses(state)
        return super().parses(state) if parses is None else list(parses.items())


class _CompositeCompletions(Completions):
    """Shortest completions that begin inside holes, or lead through them."""

    def __init__(self, network: Network, continuations: Continuations, holes: Holes) -> None:
        super().__init__(network, continuations)
        self._holes = holes

    def _left(self, state: int, continuation: int) -> int:
        if state < len(self._network):
            return super()._left(state, continuation)
        return self._holes.bytes_left(state) + self._continuations.left[continuation]

    def _completion(self, state: int, continuation: int) -> bytes:
        if state < len(self._network):
            return super()._completion(state, continuation)
        rest = self._holes.shortest_completion(state)
        # mypyc passes a tuple that is spread in a call of super() as one argument.
        after, following = self._continuations.best(continuation)
        return rest + super()._completion(after, following)

    def _hole_text(self, state: int) -> bytes:
        return self._holes.shortest_completion(state)


class _Parses(StateSharing):
    """Several parses allow what each of them allows alone, which is mostly known already."""

    def __init__(self, machine: CompositeMachine) -> None:
        self._machine = machine

    def parses(self, state: State) -> tuple[State, ...]:
        """Return each parse in a hole as a separate state, and all others as one state or two.

        Empty if the state does not have several parses, or none of them is in a hole. Together
        the states allow what ``state`` does, except for the end of the text, for which the caller
        uses ``is_accepting``.
        """
        machine, stacks = self._machine, self._machine.hole_stacks
        several = stacks.several.get(state.stack)
        if several is None:
            return ()
        alone: list[State] = []
        rules: dict[int, int] = {}
        others: dict[int, int] = {}
        first_hole = machine.network.first_hole
        for number, after in several.items():
            if number >= first_hole:
                at = machine.holes.at(number)
                if machine.holes.is_fork(at, machine.rows):
                    others[number] = after
                else:
                    stack = stacks.of_inside(Inside(at.hole, at.state.stack, after))
                    alone.append(at.state._replace(stack=stack))
            # ``several`` has all calls and returns of its states. So a state that reads no byte is
            # dropped: what follows it stands in ``several`` separately.
            elif number != END and (machine.network.moves[number] != DEAD).any():
                # A state with calls gets no row of the grammar: the exit action of that row would
                # begin the calls once more.
                (others if machine.network.calls[number] else rules)[number] = after
        if not alone:
            return ()
        if rules:
            alone.append(machine._settled(*machine._placed(rules)))
        if others:
            # All states of several parses share one row (``Holes.any_byte_row``), in which each
            # byte leads to an exit action; only the stack says which parses there are. So the row
            # of all of them also serves a part of them.
            alone.append(State(stacks.of_several(others), state.row))
        return tuple(alone)

    def beneath(self, state: State, row: int) -> State:
        """Return the state in the row that the row of ``state`` was laid over."""
        inside = self._machine.hole_stacks.inside.get(state.stack)
        if inside is None:
            return super().beneath(state, row)
        filling = self._machine.fillings[inside.hole]
        below = filling.sharing.beneath(_local(inside, state), row)
        return self._machine.placed_inside(inside, below)


def _local(inside: Inside, state: State) -> State:
    """Return a state as the machine in the hole knows it."""
    return state._replace(stack=inside.stack)
