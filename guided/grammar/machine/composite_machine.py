"""The recogniser of grammars with holes: texts inside of which other recognisers read.

All share one table of rows. While one reading alone is left, and it is inside of a hole, a row is
one of the recogniser that fills the hole, and the stack is that recogniser's with what follows
the hole: walks run through it as if it stood alone. Where several readings are left and one of them
is inside of a hole, the stack is all of them, and every byte of the one row there is for that is
a label, which Python resolves. But where all are in rows that lead on alike, such as the strings of
two schemas, the row is that of the first, and the stack knows the rows of the others by it.

Numbers (``12``) are all that may end and go on as well. Where what follows a hole may begin with a
byte that goes on, too, they are read as one of several readings from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from guided.grammar.machine.alike_rows import AlikeRows, Likeness
from guided.grammar.machine.continuations import END
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network.network import Network
from guided.machine.facts import KNOWLEDGE, KNOWN
from guided.machine.labels import FIRST_UNSURE
from guided.machine.limits import RecognizerLimits
from guided.machine.recognizer import Filling, State
from guided.machine.stack_transitions import EXACT
from guided.machine.table import END_ROW, TransitionTable
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["CompositeMachine"]

_INSIDE: Final = -1
_SEVERAL: Final = -2
_ALIKE: Final = -3
"""What frames of stacks begin with that are none of the grammar's."""
_OTHERS: Final = ((_INSIDE,), (_SEVERAL,), (_ALIKE,))
_BYTES_OF_TEXTS: Final = range(0xFF)
"""Those that UTF-8 can hold; a row leads on by at most 255 of its own."""
_BYTE_WORK: Final = 20


class _Inside(NamedTuple):
    """The only reading is inside of a hole."""

    hole: int
    stack: int
    """That of the recogniser that fills the hole."""
    continuation: int


class _Alike(NamedTuple):
    """All readings are inside of holes, in rows that are alike."""

    readings: tuple[_Inside, ...]
    likenesses: tuple[Likeness, ...]
    """How the row of each is like that of the first."""


class _Position(NamedTuple):
    """A state of the recogniser that fills a hole."""

    hole: int
    state: State


class CompositeMachine(GrammarMachine):
    """Recognises the texts of a network whose holes are filled by other recognisers.

    ``fillings`` are those, by the number of the hole, all on ``table``.
    """

    def __init__(
        self,
        network: Network,
        fillings: Sequence[Filling],
        table: TransitionTable,
        limits: RecognizerLimits | None = None,
    ) -> None:
        self.fillings = tuple(fillings)
        self._inside: dict[int, _Inside] = {}
        self._several: dict[int, Mapping[int, int]] = {}
        """By stack the readings: the continuation of each state, END among them."""
        self._alike: dict[int, _Alike] = {}
        self._alike_rows = AlikeRows(table)
        # A state is one of the network or, numbered on behind those, a position in a hole.
        self._positions = [_Position(at, each.start) for at, each in enumerate(self.fillings)]
        self._numbers = {
            position: network.first_hole + at for at, position in enumerate(self._positions)
        }
        self._forks: dict[int, frozenset[int]] = {}
        self._any_byte: int | None = None
        self._behind_hole: dict[int, State] = {}
        super().__init__(network, limits, table)

    # --- moving ---------------------------------------------------------------------------

    def top(self, stack: int, depth: int) -> int:  # noqa: ARG002 - it is whole
        """The stack itself: recognisers in holes know nothing of what was cut off."""
        return stack

    def step(self, state: State, byte: int) -> State | None:
        """The state behind ``byte``, ``None`` where it is not allowed; may lay down rows."""
        at: State | None = state
        while at is not None:
            several = self._several.get(at.stack)
            if several is not None:
                return self._state_of(self._moved(several, byte))
            alike = self._alike.get(at.stack)
            if alike is not None:
                return self._step_alike(alike, at, byte)
            inside = self._inside.get(at.stack)
            if inside is not None:
                behind = self.fillings[inside.hole].step(_local(inside, at), byte)
                if behind is not None:
                    return self._placed_inside(inside, behind)
            elif (target := self.table.step(at.row, byte)) != DEAD:
                return self._settled(at.stack, target)
            at = self._behind_end(inside, at)
        return None

    def _behind_end(self, inside: _Inside | None, state: State) -> State | None:
        """The state behind what ends here, a hole or rules, ``None`` where nothing does."""
        if inside is None:
            return self._behind_label_of(state)
        if self.fillings[inside.hole].is_accepting(_local(inside, state)):
            return self._behind(inside.continuation)
        return None

    def _step_alike(self, alike: _Alike, state: State, byte: int) -> State | None:
        target = self.table.step(state.row, byte)
        if target != DEAD and not self.table.exits[target]:
            first = alike.readings[0]
            behind = self.fillings[first.hole].step(state._replace(stack=first.stack), byte)
            return None if behind is None else behind._replace(stack=state.stack)
        return self._state_of(self._moved(self._with_returns(self._readings(alike, state)), byte))

    def _readings(self, alike: _Alike, state: State) -> dict[int, int]:
        """The readings of a state in rows that are alike."""
        found: dict[int, int] = {}
        for reading, likeness in zip(alike.readings, alike.likenesses, strict=True):
            local = State(reading.stack, likeness.rows[state.row], state.count)
            number = self._number(_Position(reading.hole, local))
            self.continuations.add(found, number, reading.continuation)
        return found

    def _readings_of(self, state: State) -> Mapping[int, int] | None:
        """All readings with all that may follow them, ``None`` where the state tells."""
        alike = self._alike.get(state.stack)
        if alike is not None:
            return self._with_returns(self._readings(alike, state))
        return self._several.get(state.stack)

    def _placed_inside(self, inside: _Inside, state: State) -> State:
        if state.row == END_ROW:
            return self._behind(inside.continuation)
        stack = self._stack_inside(inside._replace(stack=state.stack))
        return state._replace(stack=stack)

    def _behind(self, continuation: int) -> State:
        """The state behind a hole."""
        found = self._behind_hole.get(continuation)
        if found is None:
            entered = self._entered(self._returned([continuation]))
            found = self._behind_hole[continuation] = self._settled(*entered)
        return found

    def beneath(self, state: State, row: int) -> State:
        """The state in another row, in a stack where as much may follow."""
        inside = self._inside.get(state.stack)
        if inside is None:
            return super().beneath(state, row)
        local = _local(inside, state)
        return self._placed_inside(inside, self.fillings[inside.hole].beneath(local, row))

    def readings(self, state: State) -> tuple[State, ...]:
        """Of several readings each in a hole by itself, and all others together."""
        several = self._several.get(state.stack)
        if several is None:
            return ()
        alone: list[State] = []
        rules: dict[int, int] = {}
        others: dict[int, int] = {}
        for number, behind in several.items():
            if number >= self.network.first_hole:
                hole, at = self._position(number)
                if self._is_fork(hole, at):
                    others[number] = behind
                else:
                    stack = self._stack_inside(_Inside(hole, at.stack, behind))
                    alone.append(at._replace(stack=stack))
            # What only ends is there for what may follow it, which is there by itself.
            elif number != END and (self.network.moves[number] != DEAD).any():
                # The row of a state with calls makes them, which was done.
                (others if self.network.calls[number] else rules)[number] = behind
        if not alone:
            return ()
        if rules:
            alone.append(self._settled(*self._placed(rules)))
        if others:
            alone.append(State(self._stack_of_several(others), state.row))
        return tuple(alone)

    def is_accepting(self, state: State) -> bool:
        """Whether the text may end here."""
        at: State | None = state
        while at is not None:
            several = self._readings_of(at)
            if several is not None:
                return END in several
            inside = self._inside.get(at.stack)
            if inside is None and at.row in self.rows.may_end:
                return True
            at = self._behind_end(inside, at)
        return False

    def only_byte(self, state: State) -> int | None:
        """The one byte that may follow, ``None`` where there is a choice or the text may end."""
        several = self._several.get(state.stack)
        if several is None:
            return super().only_byte(state)
        only: int | None = None
        for byte in self._onward(several):
            if self._moved(several, byte):
                if only is not None:
                    return None
                only = byte
        return None if END in several else only

    def _onward(self, several: Mapping[int, int]) -> set[int]:
        """All bytes that may follow some of the readings, and perhaps others."""
        found: set[int] = set()
        for number in several:
            if number >= self.network.first_hole:
                row = self._position(number).state.row
                # What is behind a label takes more to find out.
                is_open = self.table.label[row] != DEAD
                found.update(range(256) if is_open else self.table.edges(row))
            elif number != END:
                moves = self.network.moves[number, self.network.byte_class]
                found.update((moves != DEAD).nonzero()[0].tolist())
        return found

    def num_readings(self, state: State) -> int:
        """How many states of the network and of what fills its holes the text may be in."""
        if state.stack in self._inside:
            return 1
        several = self._readings_of(state)
        return super().num_readings(state) if several is None else len(several)

    def free_keys_of(self, stack: int) -> set[bytes]:
        """The names of the innermost object that must not come again, so far."""
        inside = self._inside.get(stack)
        return set() if inside is None else self.fillings[inside.hole].free_keys_of(inside.stack)

    @property
    def incomplete(self) -> int:
        """Searches for a way to the end that were given up, so that texts may be missing."""
        return sum(filling.incomplete for filling in self.fillings)

    @property
    def fullness(self) -> float:
        """The share of its limits that the machine has grown to; it never shrinks."""
        return max(super().fullness, *(filling.fullness for filling in self.fillings))

    @property
    def is_half_full(self) -> bool:
        """Whether the machine, or one of those in its holes, has grown to half of its limits."""
        return super().is_half_full or any(filling.fullness > 0.5 for filling in self.fillings)

    # --- transitions ---------------------------------------------------------------------------

    def remember_transition(self, stack: int, label: int) -> None:
        """Enter what a label leads to in a stack into the table that walks read."""
        inside, several = self._inside.get(stack), self._several.get(stack)
        alike = self._alike.get(stack)
        if inside is None and several is None and alike is None:
            super().remember_transition(stack, label)
            return
        behind: State | None
        if inside is not None:
            target, row = self.fillings[inside.hole].transition(inside.stack, label)
            if row == DEAD:
                self.transitions.put(stack, label, EXACT if target == EXACT else stack, DEAD)
                return
            behind = self._placed_inside(inside, State(target, row))
        elif alike is not None:
            reached = self._behind_label(alike, label)
            if reached is None:
                self.transitions.put(stack, label, EXACT, DEAD)
                return
            behind = self._state_of(reached)
        else:
            assert several is not None, stack
            behind = self._state_of(self._moved(several, label - FIRST_UNSURE))
        if behind is None:
            self.transitions.put(stack, label, stack, DEAD)
        elif behind.count or behind.texts:
            self.transitions.put(stack, label, EXACT, DEAD)
        else:
            self.transitions.put(stack, label, behind.stack, behind.row)

    def _behind_label(self, alike: _Alike, label: int) -> dict[int, int] | None:
        """Where a label leads from readings that are alike, ``None`` where their texts say so."""
        reached: dict[int, int] = {}
        for reading, likeness in zip(alike.readings, alike.likenesses, strict=True):
            filling = self.fillings[reading.hole]
            target, row = filling.transition(reading.stack, likeness.labels[label])
            if target == EXACT or filling.stacks.depth(target):
                return None
            if row != DEAD:
                self._reach(reached, reading.hole, State(target, row), reading.continuation)
        return reached

    def _reach(self, reached: dict[int, int], hole: int, state: State, behind: int) -> None:
        """Add a state in a hole to a configuration, or what is behind the hole."""
        if state.row == END_ROW:
            for frame in self._returned([behind]).items():
                self.continuations.add(reached, *frame)
        else:
            self.continuations.add(reached, self._number(_Position(hole, state)), behind)

    def _settled(self, stack: int, row: int) -> State:
        while self.stacks.frames[stack][:1] not in _OTHERS and self.table.exits[row]:
            stack, row = self.resolve(stack, int(self.table.label[row]))
        return State(stack, row)

    # --- readings -------------------------------------------------------------------------

    def _state_of(self, configuration: dict[int, int]) -> State | None:
        """The state of a configuration, ``None`` for none."""
        if not configuration:
            return None
        closed = self._closed(configuration)
        lone = self._lone(closed)
        if lone is None:
            alike = self._placed_alike(closed)
            return self._settled(*self._placed(closed)) if alike is None else alike
        position = self._position(lone)
        stack = self._stack_inside(_Inside(position.hole, position.state.stack, closed[lone]))
        return position.state._replace(stack=stack)

    def _position(self, state: int) -> _Position:
        return self._positions[state - self.network.first_hole]

    def _number(self, position: _Position) -> int:
        """The number of a position among the states."""
        at = self.network.first_hole + len(self._positions)
        number = self._numbers.setdefault(position, at)
        if number == at:
            self._positions.append(position)
        return number

    def _with_calls(self, configuration: dict[int, int]) -> dict[int, int]:
        first = len(self.network)
        begun = {state: behind for state, behind in configuration.items() if state >= first}
        if not begun:
            return super()._with_calls(configuration)
        rest = {state: behind for state, behind in configuration.items() if state < first}
        return super()._with_calls(rest) | begun

    def _placed(self, closed: dict[int, int]) -> tuple[int, int]:
        if all(state < self.network.first_hole for state in closed):
            return super()._placed(closed)
        lone = self._lone(closed)
        if lone is not None:
            hole, state = self._position(lone)
            assert not state.count, "texts of holes begin with a byte that counts nothing"
            stack = self._stack_inside(_Inside(hole, state.stack, closed[lone]))
            return stack, state.row
        return self._stack_of_several(self._with_returns(closed)), self._row_of_several()

    def _lone(self, closed: Mapping[int, int]) -> int | None:
        """The only state that there is, if it is in a hole and ends where nothing goes on."""
        kept = [state for state in closed if state >= self.network.first_hole or self._keeps(state)]
        if len(kept) > 1 or kept[0] < self.network.first_hole:
            return None
        return None if self._is_fork(*self._position(kept[0])) else kept[0]

    def _placed_alike(self, closed: Mapping[int, int]) -> State | None:
        """The state of readings whose rows are alike, ``None`` for others."""
        kept = sorted(
            state for state in closed if state >= self.network.first_hole or self._keeps(state)
        )
        if kept[0] < self.network.first_hole:
            return None
        positions = [self._position(state) for state in kept]
        first = positions[0].state
        likenesses: list[Likeness] = []
        for hole, state in positions:
            likeness = None
            counts_alike = state.count == first.count and not state.texts
            if counts_alike and not self._is_fork(hole, state):
                likeness = self._alike_rows.of(first.row, state.row)
            if likeness is None:
                return None
            likenesses.append(likeness)
        readings = tuple(
            _Inside(hole, state.stack, closed[number])
            for number, (hole, state) in zip(kept, positions, strict=True)
        )
        stack = self._stack_alike(_Alike(readings, tuple(likenesses)))
        return State(stack, first.row, first.count)

    def _is_fork(self, hole: int, state: State) -> bool:
        at_start = state.stack == self.fillings[hole].start.stack
        return at_start and state.row in self._forks_of(hole)

    def _closed(self, configuration: dict[int, int]) -> dict[int, int]:
        """A configuration with all its calls, and where the text may end, with its returns."""
        closed = self._with_calls(configuration)
        if END not in closed:
            return closed
        # A row of states that only end is left at once, and that the text may end with it.
        returned = self._with_returns(closed)
        return {at: behind for at, behind in returned.items() if not self._just_ends(at)}

    def _entered(self, configuration: dict[int, int]) -> tuple[int, int]:
        return self._placed(self._closed(configuration))

    def _just_ends(self, state: int) -> bool:
        return 0 <= state < self.network.first_hole and self._only_ends[state]

    def _keeps(self, state: int) -> bool:
        return state == END or self._is_kept[state]

    def _forks_of(self, hole: int) -> frozenset[int]:
        """The rows that lead to one where a byte may go on with the text of a hole or behind it."""
        found = self._forks.get(hole)
        if found is None:
            rule = self.network.rule_of(self.network.first_hole + hole)
            is_behind = self.rows.follow[rule, self.network.byte_class]
            behind = set(is_behind.nonzero()[0].tolist())
            found = self._forks[hole] = self._leading_to_forks(hole, behind)
        return found

    def _leading_to_forks(self, hole: int, behind: set[int]) -> frozenset[int]:
        table, before, waiting = self.table, dict[int, list[int]](), [self.fillings[hole].start.row]
        forks: list[int] = []
        seen = set(waiting)
        for row in waiting if behind else ():
            spend(_BYTE_WORK)
            edges = table.edges(row)
            if table.label[row] != DEAD and not behind.isdisjoint(edges):
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

    def _may_end(self, state: int) -> bool:
        """Whether the rule, or the text of the hole, may end in a state."""
        if state < self.network.first_hole:
            return state != END and self._accepting[state]
        hole, at = self._position(state)
        return self.fillings[hole].is_accepting(at)

    def _with_returns(self, closed: dict[int, int]) -> dict[int, int]:
        """A configuration with all that may follow what ends in it."""
        done: set[tuple[int, int]] = set()
        while True:
            ended = {item for item in closed.items() if self._may_end(item[0])} - done
            if not ended:
                return closed
            done |= ended
            closed = dict(closed)
            for state, behind in self._returned([behind for _, behind in ended]).items():
                self.continuations.add(closed, state, behind)
            closed = self._with_calls(closed)

    def _behind_byte(self, items: list[tuple[int, int]], byte: int) -> dict[int, int]:
        closed: dict[int, int] = {}
        for item in items:
            self.continuations.add(closed, *item)
        return self._moved(self._with_returns(closed), byte)

    def _moved(self, closed: Mapping[int, int], byte: int) -> dict[int, int]:
        """Where a byte leads from a configuration that has all its calls and returns."""
        spend(_BYTE_WORK * len(closed))
        reached: dict[int, int] = {}
        for state, behind in closed.items():
            if state >= self.network.first_hole:
                hole, at = self._position(state)
                target = self.fillings[hole].step(at, byte)
                if target is None:
                    continue
                self._reach(reached, hole, target, behind)
            elif state != END and (reached_state := self.network.step(state, byte)) != DEAD:
                self.continuations.add(reached, reached_state, behind)
        return reached

    # --- stacks -------------------------------------------------------------------------

    def _stack_inside(self, inside: _Inside) -> int:
        number = self.stacks.of((_INSIDE, *inside))
        if number not in self._inside:
            self._inside[number] = inside
            facts = self.fillings[inside.hole].stacks.facts[inside.stack]
            self.stacks.facts[number] = facts
            if facts[KNOWLEDGE] == KNOWN:
                self.stacks.with_keys.append(number)
        return number

    def _stack_alike(self, alike: _Alike) -> int:
        frame = [number for reading in alike.readings for number in reading]
        frame += [likeness.number for likeness in alike.likenesses]
        stack = self.stacks.of((_ALIKE, *frame))
        self._alike.setdefault(stack, alike)
        return stack

    def _stack_of_several(self, closed: Mapping[int, int]) -> int:
        readings = sorted(
            item
            for item in closed.items()
            if item[0] >= self.network.first_hole or self._keeps(item[0])
        )
        number = self.stacks.of((_SEVERAL, *(number for item in readings for number in item)))
        self._several.setdefault(number, dict(readings))
        return number

    def _row_of_several(self) -> int:
        """The row that every byte leads on from, if what is read in the stack says so."""
        if self._any_byte is None:
            add = self.table.add_row
            self._any_byte = add(
                {byte: add({}, label=FIRST_UNSURE + byte) for byte in _BYTES_OF_TEXTS}
            )
        return self._any_byte

    # --- the way out ----------------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """Upper bound on the length of ``shortest_end``."""
        inside = self._inside.get(state.stack)
        if inside is not None:
            local = _local(inside, state)
            return self._left_inside(_Position(inside.hole, local), inside.continuation)
        several = self._readings_of(state)
        if several is None:
            return super().bytes_left(state)
        return min(self._left(*item) for item in several.items())

    def _left(self, state: int, continuation: int) -> int:
        if state < len(self.network):
            return self.continuations.left_behind(state, continuation)
        return self._left_inside(self._position(state), continuation)

    def _left_inside(self, position: _Position, continuation: int) -> int:
        filling = self.fillings[position.hole]
        return filling.bytes_left(position.state) + self.continuations.left[continuation]

    def shortest_end(self, state: State) -> bytes:
        """Bytes that complete the text from here, close to as few as can be."""
        inside = self._inside.get(state.stack)
        if inside is not None:
            local = _local(inside, state)
            return self._way_out_inside(_Position(inside.hole, local), inside.continuation)
        several = self._readings_of(state)
        if several is None:
            return super().shortest_end(state)
        at, continuation = min(several.items(), key=lambda item: (self._left(*item), item))
        if at < len(self.network):
            return self._way_out(at, continuation)
        return self._way_out_inside(self._position(at), continuation)

    def _way_out_inside(self, position: _Position, continuation: int) -> bytes:
        rest = self.fillings[position.hole].shortest_end(position.state)
        return rest + self._way_out(*self.continuations.best(continuation))

    def _hole_text(self, state: int) -> bytes:
        filling = self.fillings[state - self.network.first_hole]
        return filling.shortest_end(filling.start)


def _local(inside: _Inside, state: State) -> State:
    """A state as the recogniser in the hole knows it."""
    return state._replace(stack=inside.stack)
