"""Shortest completions of JSON documents: bytes that end the text from any state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.json_schema.machine.document_states import DocumentStates
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import DONE
from guided.json_schema.machine.exits import Exits
from guided.json_schema.machine.free_names import FreeNames
from guided.json_schema.machine.stacks import ROOT
from guided.machine.pushdown import PushdownMachine
from guided.machine.recognizer import State
from guided.machine.table import (
    END_ROW,
    IN_KEY,
    IN_RARE_KEY,
    INSIDE,
    START,
    STOP,
)
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend, with_pauses

__all__ = ["Completions"]

_REMEMBERED_ENDS: Final = 65_536
_END_BYTES: Final = 200
"""About what a state with its completion takes; its text is shared with others."""
_BYTE_WORK: Final = 4
"""Units of work per byte of a completion, which is walked to find where it leads."""
_FROM_HERE: Final = -2
"""In place of an exit action: nothing of the next value was written yet."""


@dataclass(frozen=True, slots=True)
class _End:
    """A text from a place on: states along one completion share its bytes."""

    text: bytes
    place: int

    def __len__(self) -> int:
        return len(self.text) - self.place

    def rest(self) -> bytes:
        return self.text[self.place :]


class Completions:
    """Finds shortest completions for one machine, and remembers them.

    Inside an automaton the table knows the way to the nearest exit action; between values the
    evaluation knows what a container still needs. Each state on a completion remembers the rest
    of it.
    """

    def __init__(
        self,
        machine: PushdownMachine,
        evaluation: Evaluation,
        rows: DocumentStates,
        exits: Exits,
        names: FreeNames,
    ) -> None:
        self._machine = machine
        self._table = machine.table
        self._evaluation = evaluation
        self._rows = rows
        self._exits = exits
        self._names = names
        self._rests: dict[tuple[int, int], int] = {}
        """Bytes to the end of the document, by stack and action; see ``_rest``."""
        self._ends: dict[State, _End] = {}
        """The shortest completion found from a state; ``_rests`` has lengths of these."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the remembered completions take."""
        return _END_BYTES * len(self._ends)

    def bytes_left(self, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``.

        Cheap except for names and items that must not occur twice.
        """
        if state.row == END_ROW:
            return 0
        known = self._ends.get(state)
        if known is not None:
            return len(known)
        # With texts the nearest end may be one already taken, which only the search finds out.
        if state.texts:
            return len(self.shortest_completion(state))
        if state.row in self._rows.structural.between:
            return self._rest(state.stack, _FROM_HERE, state)
        action = int(self._table.nearest_label[state.row])
        if action == DEAD:
            return len(self.shortest_completion(state))
        left = int(self._table.distance[state.row]) + self._owed(state)
        return left + self._rest(state.stack, action, state)

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the document from here, close to as few as possible.

        After every byte of it the shortest end is no longer than the rest of it. After a call of
        ``bytes_left``, it does little work and needs no more stacks or rows.
        """
        text = bytearray()
        passed: list[tuple[int, State]] = []
        at = state
        while not self._machine.is_accepting(at):
            end = self._end_between(at)
            if end is None and (after := self._after_automaton(at)) is not None:
                end = self._end_between(after)
            if end is not None:
                text += end.rest()
                break
            ahead = self._ahead(at)
            spend(1 + _BYTE_WORK * len(ahead))
            filled = self._filled(at, ahead)
            if filled is not None:
                passed.append((len(text), at))
                text += ahead
                at = filled
                continue
            for count, byte in enumerate(with_pauses(ahead)):
                reached = self._machine.step(at, byte)
                if reached is None:
                    # A value inside spells its names in an order that its place does not have.
                    assert count, (state, bytes(text), byte)
                    break
                passed.append((len(text), at))
                transition = self._transition(at, byte)
                if transition is not None:
                    passed.append((len(text), transition))
                text.append(byte)
                at = reached
        return self._remembered_end(state, passed, bytes(text))

    def _rest(self, stack: int, action: int, state: State) -> int:
        """Return how many bytes end the document after an exit action, or from between values.

        Remembered by stack and action. ``state`` is read only for _FROM_HERE, when it is a state
        between two values with this stack and no texts. All such states of a stack have ends of
        the same length, so the first one serves for all. For other actions the state after the
        action is found from the stack; it exists, as NEAREST_LABEL of a row names only actions that may be
        taken whatever was written (see ``TransitionTable.add_block``).
        """
        rest = self._rests.get((stack, action))
        if rest is None:
            if stack == ROOT and action == DONE:
                rest = 0
            elif action == _FROM_HERE:
                rest = len(self.shortest_completion(state))
            else:
                after = self._exits.take(stack, action, ())
                assert after is not None, (stack, action)
                rest = len(self.shortest_completion(after))
            self._rests[stack, action] = rest
        return rest

    def _owed(self, state: State) -> int:
        """Return the number of code points that a string still needs."""
        return max(0, int(self._table.low[state.row]) - state.count)

    def _transition(self, state: State, byte: int) -> State | None:
        """Return the state between two automata where one ends without a byte, as for numbers."""
        has_action = int(self._table.label[state.row]) != DEAD
        ends = has_action and self._table.step(state.row, byte) == DEAD
        return self._machine.after_exit(state) if ends else None

    def _remembered_end(self, start: State, passed: list[tuple[int, State]], text: bytes) -> bytes:
        """Return the shorter of a completion and the one known before; remembers it and its parts.

        ``passed`` are states along the completion, each with the number of its bytes before the
        state. A call adds at most _REMEMBERED_ENDS states, so ``_ends`` has at most twice as many
        and one more.
        """
        known = self._ends.get(start)
        if known is not None and len(known) <= len(text):
            return known.rest()
        if len(self._ends) > _REMEMBERED_ENDS:
            # ``_rests`` has lengths of ends in ``_ends``. Without these a later search might find a
            # longer end than the bound already returned, so both are forgotten together.
            self._ends.clear()
            self._rests.clear()
        # From the end on: if the work is broken off, every remembered part of the completion still
        # leads to its end.
        for place, before in with_pauses(reversed(passed[:_REMEMBERED_ENDS])):
            known = self._ends.get(before)
            if known is None or len(known) > len(text) - place:
                self._ends[before] = _End(text, place)
        return text

    def _ahead(self, state: State) -> bytes:
        """Return the next bytes of the completion: an automaton's, or the rest of a container.

        A free name comes first: its automaton leads to the nearest name, which may be taken. Never
        empty, or ``shortest_completion`` would not advance; the bytes need not reach the end at once.
        """
        if self._table.role[state.row] in (IN_KEY, IN_RARE_KEY):
            return self._names.ending(state.stack, state.row, state.texts[-1])
        if state.row in self._rows.structural.between:
            return self._evaluation.ends.shortest(state.stack)
        if self._owed(state):
            return self._owed_text(state)
        text = self._to_exit(state.row)
        if text:
            return text
        # The way ends in this row, as that of a number does: its exit action comes next.
        after = self._after_automaton(state)
        assert after is not None, state
        return self._ahead(after)

    def _after_automaton(self, state: State) -> State | None:
        """Return the state after an automaton that ends here without a byte, as for numbers."""
        ends = int(self._table.next_byte[state.row]) == STOP and not self._owed(state)
        return self._machine.after_exit(state) if ends else None

    def _end_between(self, state: State) -> _End | None:
        """Return the known end from a state between two values, or with a text to remember.

        Bounds on other states rely on these; inside an automaton a shorter way may be found, so
        for a state there it is ``None``.
        """
        is_between = state.texts or state.row in self._rows.structural.between
        return self._ends.get(state) if is_between else None

    def _filled(self, state: State, ahead: bytes) -> State | None:
        """Return the state after ``ahead``, if that is all that a string owes and is only counted.

        Each letter of it then does what the first one does, and there may be very many.
        """
        owed = self._owed(state)
        if owed != len(ahead) or ahead.strip(ahead[:1]):
            return None
        counted = self._machine.step(state, ahead[0])
        if counted != state._replace(count=state.count + 1):
            return None
        return state._replace(count=state.count + owed)

    def _to_exit(self, row: int) -> bytes:
        """Return the bytes to the nearest exit action, or into a string that owes code points.

        It stops early in the first state for which ``_ahead`` has another way: inside a free name,
        or in a string that owes code points.
        """
        text = bytearray()
        while (way := int(self._table.next_byte[row])) != STOP:
            text.append(way)
            row = self._table.step(row, way)
            if self._table.role[row] in (IN_KEY, IN_RARE_KEY) or (
                self._table.count_event[row] == START and self._owed(State(ROOT, row))
            ):
                break
        return bytes(text)

    def _owed_text(self, state: State) -> bytes:
        """Return the rest of a begun code point, or the other code points a string owes, in bytes.

        All of them where they leave the row as it is, else the first. Any letters will do: a least
        length is counted outside the automaton only for strings with no other ask
        (``StringRules._counted_bounds``).
        """
        text, row = bytearray(), state.row
        while self._table.count_event[row] == INSIDE:
            text.append(int(self._table.next_byte[row]))
            row = self._table.step(row, text[-1])
        if text:
            return bytes(text)
        filler = self._rows.scalars.shortest_strings.filler
        stays = self._table.step(row, filler[0]) == row
        return filler * self._owed(state) if stays else filler
