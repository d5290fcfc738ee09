"""The recogniser of JSON constraints: a pushdown machine over blocks of table rows.

A state is a stack (the nest of open containers, and what is left to fit of each) and a row (the
place inside a block). Inside a block a byte moves the row by a table look-up. Where a block ends
its label is *resolved* for the stack, which pushes or pops containers and gives the row where the
next block begins. Only these transitions run Python, each once: they are cached in a table that the
mask walk reads.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.machine.document_states import DocumentStates
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import (
    CLOSE,
    DONE,
    ITEM,
    OPEN_ARRAY,
    OPEN_OBJECT,
    Done,
    EmptyArray,
    Key,
    KeyClass,
)
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.search import MAX_TRIES
from guided.json_schema.machine.shortest_values import MAX_SHORTEST_BYTES
from guided.json_schema.machine.stacks import ROOT, ArrayFrame, ObjectFrame, Pending
from guided.machine.limits import RecognizerLimits
from guided.machine.recognizer import State
from guided.machine.stack_transitions import EMPTY_SLOT, EXACT, KEY, ROW, TARGET, StackTransitions
from guided.machine.table import (
    CLOSE_STRING,
    END_ROW,
    IN_KEY,
    IN_RARE_KEY,
    INSIDE,
    KEY_CLOSED,
    START,
    STOP,
    TICK,
    UNCOUNTED,
    TransitionTable,
)
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend
from guided.spec import JsonOptions

__all__ = ["JsonMachine"]

_REMEMBERED_KEYS: Final = 16_384
_REMEMBERED_ENDS: Final = 65_536
_BYTE_WORK: Final = 4
"""Units of work for a byte of a way out, which is walked to see where it leads."""
_KEY_TRIES: Final = 2_000
"""Names tried at most to find one that is not taken."""


@dataclass(frozen=True, slots=True)
class _End:
    """A text from a place on: states along one way out share its bytes."""

    text: bytes
    place: int

    def __len__(self) -> int:
        return len(self.text) - self.place

    def rest(self) -> bytes:
        return self.text[self.place :]


class JsonMachine:
    """Recognises the documents of a ``JsonGrammar``, byte by byte.

    ``missing`` are bytes that the vocabulary cannot spell; no text that needs one is recognised.
    ``table`` is one that several recognisers share.
    Not thread-safe. Raises UnsatisfiableError where no document is left, and LimitExceededError,
    from any method that may lay down rows, past ``limits``.
    """

    def __init__(
        self,
        grammar: JsonGrammar,
        options: JsonOptions | None = None,
        missing: frozenset[int] = frozenset(),
        limits: RecognizerLimits | None = None,
        table: TransitionTable | None = None,
    ) -> None:
        limits = limits or RecognizerLimits()
        self.evaluation = Evaluation(grammar, options or JsonOptions(), missing, limits.max_stacks)
        self.stacks = self.evaluation.stacks
        self.table = TransitionTable(limits.max_cells) if table is None else table
        self.rows = DocumentStates(self.evaluation, self.table)
        self.labels = self.rows.labels
        self.transitions = StackTransitions()
        self._behind_values: dict[tuple[int, int], tuple[int, int] | None] = {}
        self._behind_unknown_names: dict[tuple[int, int], tuple[int, int] | None] = {}
        self._rests: dict[tuple[int, int], int] = {}
        self._ends: dict[State, _End] = {}
        self._closable: LRUCache[tuple[int, int, bytes], bool] = LRUCache(_REMEMBERED_KEYS)
        self.start = self._first(grammar)

    def _first(self, grammar: JsonGrammar) -> State:
        """The state before the document."""
        if self.evaluation.values.text(grammar.root) is None:
            raise self._empty()
        return State(ROOT, self.rows.value(ROOT, spaced=False))

    # --- moving ---------------------------------------------------------------------------

    def step(self, state: State, byte: int) -> State | None:
        """The state behind ``byte``, ``None`` where it is not allowed; may lay down rows."""
        stack, row, count, texts = state
        table = self.table
        target = table.step(row, byte)
        while target == DEAD:
            # The block may end here, and the byte may belong to what follows.
            label = int(table.label[row])
            if label == DEAD or (stack == ROOT and label == DONE):
                return None
            resolved = self._resolve(stack, label, texts)
            if resolved is None:
                return None
            stack, row, texts = resolved
            count = 0
            target = table.step(row, byte)
        counted = self._counted(target, count)
        if counted is None:
            return None
        written = texts
        if texts:
            texts = tuple(text + bytes((byte,)) for text in texts)
        role = table.role[target]
        if role in (IN_KEY, IN_RARE_KEY) and len(texts) == self.stacks.depth(stack):
            texts = (*texts, b"")
        key = written[-1] if role == KEY_CLOSED else None
        if key is not None and key in self.free_keys_of(stack):
            return None
        if role == IN_RARE_KEY and not self._can_close_key(stack, target, texts[-1]):
            return None
        while table.exits[target]:
            resolved = self._resolve(stack, int(table.label[target]), texts, key)
            if resolved is None:
                return None
            stack, target, texts = resolved
            counted, key = 0, None
        return State(stack, target, counted, texts)

    def _counted(self, target: int, count: int) -> int | None:
        """The count behind a byte that leads to a row, ``None`` past its bounds."""
        table = self.table
        high = int(table.high[target])
        if high == UNCOUNTED:
            return 0
        beat = table.beat[target]
        if beat == CLOSE_STRING:
            return 0 if count >= table.low[target] else None
        if beat == START:
            count = 0
        elif beat == TICK:
            count += 1
        return count if count + int(table.need[target]) <= high else None

    def advance(self, state: State, text: bytes) -> State | None:
        """The state behind all bytes of ``text``, ``None`` where one is not allowed."""
        current: State | None = state
        for byte in text:
            if current is None:
                return None
            current = self.step(current, byte)
        return current

    def beneath(self, state: State, row: int) -> State:
        """The state in ``row``, which that of ``state`` lies over, in a stack where as much may
        follow from it: one for all members of an object.
        """
        stack = self.evaluation.names.after_names(state.stack)
        return State(stack, row, state.count, state.texts)

    def readings(self, state: State) -> tuple[State, ...]:  # noqa: ARG002 - there is but one
        """None: a state is gone on from by itself."""
        return ()

    def top(self, stack: int, depth: int) -> int:  # noqa: ARG002 - it is whole
        """The stack itself: stacks already leave out what few tokens depend on."""
        return stack

    def beyond(self, state: State) -> State:
        """Never asked for: no stack has a top of its own."""
        raise AssertionError(f"{state} has no top")

    def is_complete(self, state: State) -> bool:
        """Whether the document is complete and nothing may follow."""
        return state.row == END_ROW

    def is_accepting(self, state: State) -> bool:
        """Whether the document may end here."""
        return state.stack == ROOT and (
            state.row == END_ROW or int(self.table.label[state.row]) == DONE
        )

    def only_byte(self, state: State) -> int | None:
        """The one byte that may follow, ``None`` where there is a choice or the text may end."""
        only = int(self.table.only[state.row])
        if only == DEAD or self.table.label[state.row] != DEAD:
            return None
        return only

    def free_keys_of(self, stack: int) -> set[bytes]:
        """The names of the innermost object that the schema does not spell out, so far."""
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return set(self.stacks.keys(frame.keys))

    @property
    def incomplete(self) -> int:
        """Searches for a way to the end that gave up, so that documents may be missing."""
        return self.evaluation.values.missing

    @property
    def fullness(self) -> float:
        """The share of its limits that the machine has grown to; it never shrinks."""
        return max(
            self.table.num_cells / self.table.max_cells,
            len(self.stacks) / self.stacks.max_stacks,
        )

    def check_room(self) -> None:
        """Raise LimitExceededError when the rest of the limits is needed to end documents."""
        table, stacks = self.table, self.stacks
        if 2 * table.num_cells > table.max_cells or 2 * len(stacks.frames) > stacks.max_stacks:
            raise LimitExceededError(
                f"the recogniser has {self.table.num_cells} cells and {len(self.stacks)} stacks"
                f" and may have half of {self.table.max_cells} and {self.stacks.max_stacks}",
                limit=self.table.max_cells,
                field="constraint",
                hint="ask for less at once: shorter strings, smaller lists, fewer members",
            )

    # --- transitions ---------------------------------------------------------------------------

    def resolve(
        self, stack: int, label: int, *, item: bytes | None = None, key: bytes | None = None
    ) -> tuple[int, int] | None:
        """The stack and the row behind ``label``, ``None`` where it must not be taken.

        ``item`` is the text of the value that ends, where the stack remembers it; ``key`` that of
        a free name that is closed: without it the set of names becomes unknown.
        """
        evaluation, rows = self.evaluation, self.rows
        if label == DONE:
            return self._value_done(stack, 1, item)
        if label == CLOSE:
            verdict = evaluation.awaited.closed(stack)
            return self._value_done(self.stacks.parents[stack], verdict, item)
        if label == ITEM:
            begun = evaluation.items.begun(stack)
            return None if begun is None else (begun, rows.value(begun))
        if label == OPEN_OBJECT:
            opened = evaluation.awaited.open(stack, JsonType.OBJECT)
            return None if opened is None else (opened, rows.members(opened))
        if label == OPEN_ARRAY:
            opened = evaluation.awaited.open(stack, JsonType.ARRAY)
            if opened is None:
                return None
            return rows.first_item(opened, evaluation.items.begun(opened))
        meaning = self.labels.meaning(label)
        if isinstance(meaning, Done):
            return self._value_done(stack, meaning.truth, item)
        if isinstance(meaning, EmptyArray):
            return self._value_done(self.stacks.parents[stack], meaning.truth, item)
        if isinstance(meaning, Key):
            named = evaluation.names.name_written(stack, meaning.name)
        else:
            assert isinstance(meaning, KeyClass), meaning
            if key is None:
                return self._unknown_name(evaluation.names.after_names(stack), meaning.number)
            named = evaluation.names.class_written(stack, meaning.number, key)
        return None if named is None else (named, rows.colon_and_value(named))

    def _unknown_name(self, stack: int, number: int) -> tuple[int, int] | None:
        """What is behind a free name of a class, whichever it is."""
        at = stack, number
        if at not in self._behind_unknown_names:
            named = self.evaluation.names.class_written(stack, number, None)
            found = None if named is None else (named, self.rows.colon_and_value(named))
            self._behind_unknown_names[at] = found
        return self._behind_unknown_names[at]

    def _value_done(self, stack: int, verdict: int, item: bytes | None) -> tuple[int, int] | None:
        if item is not None:
            return self._behind_value(stack, verdict, item)
        # Strings, numbers and every closing bracket of a value meet here.
        key = stack, verdict
        if key not in self._behind_values:
            self._behind_values[key] = self._behind_value(stack, verdict, None)
        return self._behind_values[key]

    def _behind_value(self, stack: int, verdict: int, item: bytes | None) -> tuple[int, int] | None:
        if not self.evaluation.awaited.accepts(stack, verdict):
            return None
        if stack == ROOT:
            return ROOT, END_ROW
        behind = self.evaluation.awaited.value_done(stack, verdict, item)
        if behind is None:
            return None
        frame = self.stacks.frames[behind]
        if isinstance(frame, ArrayFrame):
            return behind, self.rows.next_item(behind)
        return behind, self.rows.members(behind)

    def ends_value_of(self, stack: int, label: int) -> int | None:
        """The stack in which a value ends by ``label``, ``None`` for other labels."""
        if label == DONE:
            return stack
        if label == CLOSE:
            return self.stacks.parents[stack]
        if label in _OPENING:
            return None
        meaning = self.labels.meaning(label)
        if isinstance(meaning, EmptyArray):
            return self.stacks.parents[stack]
        return stack if isinstance(meaning, Done) else None

    def remember_transition(self, stack: int, label: int) -> None:
        """Enter what ``resolve`` says without a text into the table that walks read."""
        self.transitions.put(stack, label, *self.transition(stack, label))

    def transition(self, stack: int, label: int) -> tuple[int, int]:
        """What a label leads to in a stack, as the table of transitions says it."""
        at = stack, label
        while True:
            if self._needs_text(*at):
                return EXACT, DEAD
            resolved = self.resolve(*at)
            if resolved is None:
                return at[0], DEAD
            if not self.table.exits[resolved[1]]:
                return resolved
            at = resolved[0], int(self.table.label[resolved[1]])

    def _needs_text(self, stack: int, label: int) -> bool:
        """Whether what follows a label depends on which item or name was written."""
        if not self.stacks.depth(stack) and label in _TEXTLESS:
            return False
        ended = self.ends_value_of(stack, label)
        if ended is None:
            meaning = self.labels.meaning(label)
            if isinstance(meaning, KeyClass):
                return self.evaluation.names.is_rare(stack, meaning.number)
            return False
        if not self._remembers(ended):
            return False
        return ended != stack or not self.evaluation.items.is_roomy(ended)

    def _remembers(self, stack: int) -> bool:
        frame = self.stacks.frames[stack]
        return isinstance(frame, Pending) and frame.remembers

    def _resolve(
        self, stack: int, label: int, texts: tuple[bytes, ...], key: bytes | None = None
    ) -> tuple[int, int, tuple[bytes, ...]] | None:
        """``resolve`` with the texts that are being remembered."""
        ended = self.ends_value_of(stack, label)
        item = None
        if ended is not None and self._remembers(ended):
            item = texts[self.stacks.depth(ended) - 1]
        resolved = self.resolve(stack, label, item=item, key=key)
        if resolved is None:
            return None
        behind, row = resolved
        depth = self.stacks.depth(behind)
        texts = texts[:depth]
        return behind, row, texts + (b"",) * (depth - len(texts))

    # --- the way out ----------------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """Upper bound on the length of ``shortest_end``; cheap but for names and items that must
        not stand twice.
        """
        if state.row == END_ROW:
            return 0
        known = self._ends.get(state)
        if known is not None:
            return len(known)
        if state.texts:
            return len(self.shortest_end(state))
        if state.row in self.rows.between:
            return self._rest(state.stack, _FROM_HERE, state)
        label = int(self.table.aim[state.row])
        if label == DEAD:
            return len(self.shortest_end(state))
        left = int(self.table.left[state.row]) + self._owed(state)
        return left + self._rest(state.stack, label, state)

    def _rest(self, stack: int, label: int, state: State) -> int:
        """Bytes from a label to the end of the document, or from a state between two values."""
        rest = self._rests.get((stack, label))
        if rest is None:
            if stack == ROOT and label == DONE:
                rest = 0
            elif label == _FROM_HERE:
                rest = len(self.shortest_end(state))
            else:
                resolved = self._resolve(stack, label, ())
                assert resolved is not None, (stack, label)
                rest = len(self.shortest_end(State(resolved[0], resolved[1], 0, resolved[2])))
            self._rests[stack, label] = rest
        return rest

    def _owed(self, state: State) -> int:
        """Code points that a string still needs."""
        return max(0, int(self.table.low[state.row]) - state.count)

    def shortest_end(self, state: State) -> bytes:
        """Bytes that complete the document from here, close to as few as can be.

        Behind every byte of it the shortest end is no longer than the rest of it. Where
        ``bytes_left`` was asked for, it spends little and needs no more stacks or rows.
        """
        text = bytearray()
        passed: list[tuple[int, State]] = []
        at = state
        while not self.is_accepting(at):
            end = self._end_between(at)
            if end is None and (behind := self._behind_block(at)) is not None:
                end = self._end_between(behind)
            if end is not None:
                text += end.rest()
                break
            ahead = self._ahead(at)
            spend(1 + _BYTE_WORK * len(ahead))
            for count, byte in enumerate(ahead):
                reached = self.step(at, byte)
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

    def _transition(self, state: State, byte: int) -> State | None:
        """The state between two blocks where one ends without a byte of its own, as numbers do."""
        has_label = int(self.table.label[state.row]) != DEAD
        ends = has_label and self.table.step(state.row, byte) == DEAD
        return self._behind_label(state) if ends else None

    def _behind_label(self, state: State) -> State | None:
        """The state after the label of a row; ``None`` where it has none, or must not take it."""
        label = int(self.table.label[state.row])
        if label == DEAD:
            return None
        resolved = self._resolve(state.stack, label, state.texts)
        return None if resolved is None else State(resolved[0], resolved[1], 0, resolved[2])

    def _remembered_end(self, start: State, passed: list[tuple[int, State]], text: bytes) -> bytes:
        """The shorter of a way out and the one known before; remembers both it and its parts."""
        known = self._ends.get(start)
        if known is not None and len(known) <= len(text):
            return known.rest()
        if len(self._ends) > _REMEMBERED_ENDS:
            # Bounds rest on what is remembered, so they go together.
            self._ends.clear()
            self._rests.clear()
        for place, before in passed[:_REMEMBERED_ENDS]:
            known = self._ends.get(before)
            if known is None or len(known) > len(text) - place:
                self._ends[before] = _End(text, place)
        return text

    def _ahead(self, state: State) -> bytes:
        """The next bytes of the way out: those of a block, or of the rest of a container."""
        if self.table.role[state.row] in (IN_KEY, IN_RARE_KEY):
            return self._rest_of_key(state)
        if state.row in self.rows.between:
            return self.evaluation.ends.end(state.stack)
        if self._owed(state):
            return self._owed_text(state)
        text, _ = self._to_label(state.row)
        if text:
            return text
        behind = self._behind_block(state)
        assert behind is not None, state
        return self._ahead(behind)

    def _behind_block(self, state: State) -> State | None:
        """The state after a block whose way out ends here, without a byte, as that of numbers."""
        ends = int(self.table.way[state.row]) == STOP and not self._owed(state)
        return self._behind_label(state) if ends else None

    def _end_between(self, state: State) -> _End | None:
        """The end that is known from a state between two values, or with a text to remember.

        Bounds on other states rest on these; inside a block a shorter way may be found.
        """
        is_between = state.texts or state.row in self.rows.between
        return self._ends.get(state) if is_between else None

    def _to_label(self, row: int) -> tuple[bytes, int]:
        """The bytes to the nearest label, or into a string that owes code points."""
        text = bytearray()
        while (way := int(self.table.way[row])) != STOP:
            text.append(way)
            row = self.table.step(row, way)
            if self.table.role[row] in (IN_KEY, IN_RARE_KEY) or (
                self.table.beat[row] == START and self._owed(State(ROOT, row))
            ):
                break
        return bytes(text), row

    def _owed_text(self, state: State) -> bytes:
        """The code points that a string owes; the one that was begun first."""
        text = bytearray()
        row, owed = state.row, self._owed(state)
        while self.table.beat[row] == INSIDE:
            text.append(int(self.table.way[row]))
            row = self.table.step(row, text[-1])
            owed -= int(self.table.beat[row] == TICK)
        return bytes(text) + self.rows.scalars.strings.filler * owed

    def _rest_of_key(self, state: State) -> bytes:
        """What closes a name that may stand here, one that is owed if it begins so."""
        begun = state.texts[-1]
        owed = self.evaluation.ends.end(state.stack).lstrip(b",")
        for name in json.loads(b"{" + owed):
            key = json_key(name)[1:]
            if key.startswith(begun):
                return key[len(begun) :]
        for text in itertools.islice(self._ends_of_key(state.row), _KEY_TRIES):
            if self._name_may_stand(state.stack, state.texts[-1] + text[:-1]):
                return text
        raise AssertionError(f"no name is left at {state}")

    def _can_close_key(self, stack: int, row: int, begun: bytes) -> bool:
        if self.table.ends[row] > self.stacks.taken(stack):
            return True
        at = (stack, row, begun)
        found = self._closable.get(at)
        if found is None:
            ends = itertools.islice(self._ends_of_key(row), _KEY_TRIES)
            found = any(self._name_may_stand(stack, begun + text[:-1]) for text in ends)
            self._closable[at] = found
        return found

    def _name_may_stand(self, stack: int, key: bytes) -> bool:
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        order = self.evaluation.objects.orders[frame.order]
        if key in order.spelled:
            name = json.loads(b'"' + key + b'"')
            return self.evaluation.names.name_written(stack, name) is not None
        return key not in self.free_keys_of(stack)

    def _ends_of_key(self, row: int) -> Iterator[bytes]:
        """The texts from inside a name to behind its closing quote, shortest first."""
        ties = itertools.count()
        heap = [(int(self.table.left[row]), 0, next(ties), row, b"")]
        while heap:
            _, _, _, row, text = heapq.heappop(heap)
            if self.table.exits[row]:
                yield text
                continue
            for byte, target in self.table.edges(row).items():
                more = text + bytes((byte,))
                total = len(more) + int(self.table.left[target])
                heapq.heappush(heap, (total, -len(more), next(ties), target, more))

    # --- parts ----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError unless table, stacks and transitions agree with one another."""
        self.table.check()
        for number, parent in enumerate(self.stacks.parents[1:], start=1):
            assert 0 <= parent < number, (number, parent)
        slots = self.transitions.slots
        used = slots[slots[:, KEY] != EMPTY_SLOT]
        assert len(used) == len(self.transitions), (len(used), len(self.transitions))
        assert (used[:, TARGET] < len(self.stacks)).all()
        assert (used[:, ROW] < self.table.num_rows).all()

    def _empty(self) -> UnsatisfiableError | LimitExceededError:
        """Why there is no document."""
        node = self.evaluation.searches.node
        pointer = "" if node is None else node.pointer
        if self.evaluation.values.too_long:
            return LimitExceededError(
                f"the shortest document has more than {MAX_SHORTEST_BYTES} bytes",
                limit=MAX_SHORTEST_BYTES,
                field="constraint",
                pointer=pointer,
                hint="lower the least lengths, or require fewer members and items",
            )
        if self.incomplete:
            return LimitExceededError(
                f"no document was found in {MAX_TRIES} tries for each part of the schema",
                limit=MAX_TRIES,
                field="constraint",
                pointer=pointer,
                hint="say with fewer alternatives what is meant",
            )
        return UnsatisfiableError(
            "no document satisfies the schema",
            pointer="",
            hint="look for bounds that cross, and for required members that may not be there",
        )


_OPENING: Final = frozenset((ITEM, OPEN_OBJECT, OPEN_ARRAY))
_TEXTLESS: Final = frozenset((DONE, CLOSE, *_OPENING))
"""Labels that need a text only where one is remembered."""
_FROM_HERE: Final = -2
"""In place of a label: nothing of the next value was written yet."""
