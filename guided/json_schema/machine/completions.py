"""Shortest completions of JSON documents: the bytes that end the document from any state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.json_schema.machine.additional_names import AdditionalNames
from guided.json_schema.machine.document_rows import DocumentRows
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import DONE
from guided.json_schema.machine.exits import Exits
from guided.json_schema.machine.stacks import ROOT
from guided.machine.recognizer import Recognizer, State
from guided.machine.table import (
    END_ROW,
    IN_KEY,
    IN_RARE_KEY,
    INSIDE,
    START,
    STOP,
)
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend, with_pauses

__all__ = ["DocumentCompletions"]

_MAX_STATES_KEPT: Final = 65_536
_SUFFIX_BYTES: Final = 200
"""About what a state and its suffix take; the text is shared with other states."""
_BYTE_WORK: Final = 4
"""Units of work per byte of a completion, which is walked to find where it leads."""
_BETWEEN_VALUES: Final = -2
"""In place of an exit action: the state is between two values."""


@dataclass(frozen=True, slots=True)
class _Suffix:
    """The completion of one state: a text from ``start`` on, which states along it share."""

    text: bytes
    start: int

    def __len__(self) -> int:
        return len(self.text) - self.start

    def to_bytes(self) -> bytes:
        return self.text[self.start :]


class DocumentCompletions:
    """Finds and caches the completions of one machine's states.

    Inside an automaton the table has the shortest path to an exit action; between values
    ``ContainerCompletions`` has what a container still needs. What is found is cached for each
    state along it. The machine is passed to each call, as it holds this object.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        rows: DocumentRows,
        exits: Exits,
        names: AdditionalNames,
    ) -> None:
        self._table = rows.table
        self._evaluation = evaluation
        self._rows = rows
        self._exits = exits
        self._names = names
        self._lengths: dict[tuple[int, int], int] = {}
        """The results of ``_bytes_after``, by stack and action."""
        self._suffixes: dict[State, _Suffix] = {}
        """The shortest completion found, by state; ``_lengths`` are lengths of these."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the cached completions take."""
        return _SUFFIX_BYTES * len(self._suffixes)

    def bytes_left(self, machine: Recognizer, state: State) -> int:
        """Return an upper bound on the length of ``shortest_completion``.

        Counts by the nearest end of the value, though another may be shorter on the whole. Cheap
        except for names and items that must not occur twice.
        """
        if state.row == END_ROW:
            return 0
        cached = self._suffixes.get(state)
        if cached is not None:
            return len(cached)
        # With texts the nearest name or item may be taken already, which only the search finds out.
        if state.texts:
            return len(self.shortest_completion(machine, state))
        if state.row in self._rows.structural.between:
            return self._bytes_after(machine, state.stack, _BETWEEN_VALUES, state)
        action = int(self._table.nearest_label[state.row])
        # No end is possible whatever was read before, so only the search knows the way.
        if action == DEAD:
            return len(self.shortest_completion(machine, state))
        left = int(self._table.distance[state.row])
        # Where a string begins, its distance already has what it owes (``Block``).
        if self._table.count_event[state.row] != START:
            left += self._owed_code_points(state)
        return left + self._bytes_after(machine, state.stack, action, state)

    def shortest_completion(self, machine: Recognizer, state: State) -> bytes:
        """Return bytes that complete the document from here, close to as few as possible.

        After each byte of it, the completion found is no longer than the rest of this one. After a
        call of ``bytes_left`` it takes little work and adds no stacks or rows.
        """
        text = bytearray()
        passed: list[tuple[int, State]] = []
        at = state
        while not machine.is_accepting(at):
            suffix = self._known_suffix(at)
            if suffix is None and (after := self._exit_here(machine, at)) is not None:
                suffix = self._known_suffix(after)
            if suffix is not None:
                text += suffix.to_bytes()
                break
            ahead = self._next_bytes(machine, at)
            spend(1 + _BYTE_WORK * len(ahead))
            filled = self._read_filler(machine, at, ahead)
            if filled is not None:
                passed.append((len(text), at))
                text += ahead
                at = filled
                continue
            for count, byte in enumerate(with_pauses(ahead)):
                reached = machine.step(at, byte)
                if reached is None:
                    # A value inside spells its names in an order that its place does not have.
                    assert count, (state, bytes(text), byte)
                    break
                passed.append((len(text), at))
                transition = self._exit_before(machine, at, byte)
                if transition is not None:
                    passed.append((len(text), transition))
                text.append(byte)
                at = reached
        return self._store(state, passed, bytes(text))

    def _bytes_after(self, machine: Recognizer, stack: int, action: int, state: State) -> int:
        """Return the length of the completion after an exit action.

        ``action`` is NEAREST_LABEL of a row, which names only actions that may be taken whatever
        was written (``TransitionTable.add_block``); or _BETWEEN_VALUES for the completion of
        ``state`` itself, a state between two values without texts. Those of one stack have equal
        lengths, so one result serves for all of them.
        """
        rest = self._lengths.get((stack, action))
        if rest is None:
            if stack == ROOT and action == DONE:
                rest = 0
            elif action == _BETWEEN_VALUES:
                rest = len(self.shortest_completion(machine, state))
            else:
                after = self._exits.take(stack, action, ())
                assert after is not None, (stack, action)
                rest = len(self.shortest_completion(machine, after))
            self._lengths[stack, action] = rest
        return rest

    def _owed_code_points(self, state: State) -> int:
        """Return the number of code points that a string still needs to reach its least length."""
        return max(0, int(self._table.low[state.row]) - state.count)

    def _exit_before(self, machine: Recognizer, state: State, byte: int) -> State | None:
        """Return the state after the exit action of a row that ``byte`` does not continue.

        ``None`` if the byte continues its automaton. So a number ends with the byte after it.
        """
        has_action = int(self._table.label[state.row]) != DEAD
        ends = has_action and self._table.step(state.row, byte) == DEAD
        return machine.after_exit(state) if ends else None

    def _store(self, start: State, passed: list[tuple[int, State]], text: bytes) -> bytes:
        """Cache a completion for the states along it; return the best one known for ``start``.

        ``passed`` are these states, each with the number of bytes before it. A call adds at most
        _MAX_STATES_KEPT states, so ``_suffixes`` has at most twice as many and one more.
        """
        cached = self._suffixes.get(start)
        if cached is not None and len(cached) <= len(text):
            return cached.to_bytes()
        if len(self._suffixes) > _MAX_STATES_KEPT:
            # Without its text, a later search might find a longer completion than the length in
            # ``_lengths``, so both are cleared together.
            self._suffixes.clear()
            self._lengths.clear()
        # Backwards: if this is interrupted, states with a longer rest have no suffix yet, and the
        # suffixes that are stored agree with each other.
        for offset, before in with_pauses(reversed(passed[:_MAX_STATES_KEPT])):
            cached = self._suffixes.get(before)
            if cached is None or len(cached) > len(text) - offset:
                self._suffixes[before] = _Suffix(text, offset)
        return text

    def _next_bytes(self, machine: Recognizer, state: State) -> bytes:
        """Return the next bytes of the completion: to the end of an automaton or a container.

        Never empty. For an additional name they end it as one that is not taken, which its
        automaton does not know.
        """
        if self._table.role[state.row] in (IN_KEY, IN_RARE_KEY):
            return self._names.closing_text(state.stack, state.row, state.texts[-1])
        if state.row in self._rows.structural.between:
            return self._evaluation.completions.shortest(state.stack)
        if self._owed_code_points(state):
            return self._owed_text(state)
        text = self._path_to_exit(state.row)
        if text:
            return text
        # The path ends in this row, as that of a number does: its exit action comes next.
        after = self._exit_here(machine, state)
        assert after is not None, state
        return self._next_bytes(machine, after)

    def _exit_here(self, machine: Recognizer, state: State) -> State | None:
        """Return the state after the exit action here if the shortest path takes it."""
        ends = int(self._table.next_byte[state.row]) == STOP and not self._owed_code_points(state)
        return machine.after_exit(state) if ends else None

    def _known_suffix(self, state: State) -> _Suffix | None:
        """Return the cached completion of a state between two values, or with texts; else ``None``.

        The lengths of other completions rely on these. Inside an automaton a shorter one may be
        found later, so what is cached there is not used.
        """
        is_between = state.texts or state.row in self._rows.structural.between
        return self._suffixes.get(state) if is_between else None

    def _read_filler(self, machine: Recognizer, state: State, ahead: bytes) -> State | None:
        """Return the state after ``ahead`` if it is the filler of a string, which is only counted.

        It may be very long, so it is not read byte by byte; ``None`` for any other bytes.
        """
        owed = self._owed_code_points(state)
        if owed != len(ahead) or ahead.strip(ahead[:1]):
            return None
        counted = machine.step(state, ahead[0])
        if counted != state._replace(count=state.count + 1):
            return None
        return state._replace(count=state.count + owed)

    def _path_to_exit(self, row: int) -> bytes:
        """Return the bytes from a row to the nearest exit action.

        They end early in a state where ``_next_bytes`` does not follow the table: inside an
        additional name, or where a string begins that owes code points. Which stack it is does not
        matter to either.
        """
        text = bytearray()
        while (byte := int(self._table.next_byte[row])) != STOP:
            text.append(byte)
            row = self._table.step(row, byte)
            if self._table.role[row] in (IN_KEY, IN_RARE_KEY) or (
                self._table.count_event[row] == START and self._owed_code_points(State(ROOT, row))
            ):
                break
        return bytes(text)

    def _owed_text(self, state: State) -> bytes:
        """Return the rest of an incomplete code point, or code points that a string owes.

        All that are owed if they leave the row as it is, else the first. Any letters do: a least
        length is counted outside the automaton only for strings with no other formula
        (``StringRules._split_counted_bounds``).
        """
        text, row = bytearray(), state.row
        while self._table.count_event[row] == INSIDE:
            text.append(int(self._table.next_byte[row]))
            row = self._table.step(row, text[-1])
        if text:
            return bytes(text)
        filler = self._rows.scalars.shortest_strings.filler
        stays = self._table.step(row, filler[0]) == row
        return filler * self._owed_code_points(state) if stays else filler
