"""The recogniser of JSON constraints: a pushdown machine over blocks of table rows.

A state is a context (the nest of open containers, and what is left to fit of each) and a row (the
place inside a block). Inside a block a byte moves the row by a table look-up. Where a block ends
its label is *resolved* in the context, which enters or leaves containers and gives the row where
the next block begins. Only these joints run Python, each once: they are remembered in a table that
the mask walk reads.
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
from guided.json_schema.machine.contexts import ROOT, ArrayFrame, ObjectFrame, Pending
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.labels import (
    CLOSE,
    DONE,
    ITEM,
    OPEN_ARRAY,
    OPEN_OBJECT,
    EmptyArray,
    Judged,
    Key,
    KeyClass,
)
from guided.json_schema.machine.rows import Rows
from guided.json_schema.machine.scalars import json_key
from guided.json_schema.machine.search import MAX_TRIES
from guided.json_schema.machine.values import MAX_SHORTEST_BYTES
from guided.machine.joints import EMPTY_SLOT, EXACT, KEY, ROW, TARGET, JointTable
from guided.machine.limits import RecognizerLimits
from guided.machine.recognizer import State
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

__all__ = ["JsonMachine", "State"]

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
        self.evaluation = Evaluation(
            grammar, options or JsonOptions(), missing, limits.max_contexts
        )
        self.contexts = self.evaluation.contexts
        self.table = TransitionTable(limits.max_cells) if table is None else table
        self.rows = Rows(self.evaluation, self.table)
        self.labels = self.rows.labels
        self.joints = JointTable()
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
        context, row, count, texts = state
        table = self.table
        target = table.step(row, byte)
        while target == DEAD:
            # The block may end here, and the byte may belong to what follows.
            label = int(table.label[row])
            if label == DEAD or (context == ROOT and label == DONE):
                return None
            resolved = self._resolve(context, label, texts)
            if resolved is None:
                return None
            context, row, texts = resolved
            count = 0
            target = table.step(row, byte)
        counted = self._counted(target, count)
        if counted is None:
            return None
        written = texts
        if texts:
            texts = tuple(text + bytes((byte,)) for text in texts)
        role = table.role[target]
        if role in (IN_KEY, IN_RARE_KEY) and len(texts) == self.contexts.depth(context):
            texts = (*texts, b"")
        key = written[-1] if role == KEY_CLOSED else None
        if key is not None and key in self.free_keys_of(context):
            return None
        if role == IN_RARE_KEY and not self._can_close_key(context, target, texts[-1]):
            return None
        while table.exits[target]:
            resolved = self._resolve(context, int(table.label[target]), texts, key)
            if resolved is None:
                return None
            context, target, texts = resolved
            counted, key = 0, None
        return State(context, target, counted, texts)

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
        """The state in ``row``, which that of ``state`` lies over, in a context where as much may
        follow from it: one for all members of an object.
        """
        context = self.evaluation.behind_names(state.context)
        return State(context, row, state.count, state.texts)

    def readings(self, state: State) -> tuple[State, ...]:  # noqa: ARG002 - there is but one
        """None: a state is gone on from by itself."""
        return ()

    def top(self, context: int, depth: int) -> int:  # noqa: ARG002 - it is whole
        """The context itself: contexts already leave out what few tokens depend on."""
        return context

    def beyond(self, state: State) -> State:
        """Never asked for: no context has a top of its own."""
        raise AssertionError(f"{state} has no top")

    def is_complete(self, state: State) -> bool:
        """Whether the document is complete and nothing may follow."""
        return state.row == END_ROW

    def is_accepting(self, state: State) -> bool:
        """Whether the document may end here."""
        return state.context == ROOT and (
            state.row == END_ROW or int(self.table.label[state.row]) == DONE
        )

    def only_byte(self, state: State) -> int | None:
        """The one byte that may follow, ``None`` where there is a choice or the text may end."""
        only = int(self.table.only[state.row])
        if only == DEAD or self.table.label[state.row] != DEAD:
            return None
        return only

    def free_keys_of(self, context: int) -> set[bytes]:
        """The names of the innermost object that the schema does not spell out, so far."""
        frame = self.contexts.frames[context]
        assert isinstance(frame, ObjectFrame), frame
        return set(self.contexts.keys(frame.keys))

    @property
    def incomplete(self) -> int:
        """Searches for a way to the end that gave up, so that documents may be missing."""
        return self.evaluation.values.missing

    @property
    def fullness(self) -> float:
        """The share of its limits that the machine has grown to; it never shrinks."""
        return max(
            self.table.num_cells / self.table.max_cells,
            len(self.contexts) / self.contexts.max_contexts,
        )

    def check_room(self) -> None:
        """Raise LimitExceededError when the rest of the limits is needed to end documents."""
        table, contexts = self.table, self.contexts
        if (
            2 * table.num_cells > table.max_cells
            or 2 * len(contexts.frames) > contexts.max_contexts
        ):
            raise LimitExceededError(
                f"the recogniser has {self.table.num_cells} cells and {len(self.contexts)} contexts"
                f" and may have half of {self.table.max_cells} and {self.contexts.max_contexts}",
                limit=self.table.max_cells,
                field="constraint",
                hint="ask for less at once: shorter strings, smaller lists, fewer members",
            )

    # --- joints ---------------------------------------------------------------------------

    def resolve(
        self, context: int, label: int, *, item: bytes | None = None, key: bytes | None = None
    ) -> tuple[int, int] | None:
        """The context and the row behind ``label``, ``None`` where it must not be taken.

        ``item`` is the text of the value that ends, where the context remembers it; ``key`` that of
        a free name that is closed: without it the set of names becomes unknown.
        """
        evaluation, rows = self.evaluation, self.rows
        if label == DONE:
            return self._value_done(context, 1, item)
        if label == CLOSE:
            verdict = evaluation.closed(context)
            return self._value_done(self.contexts.parents[context], verdict, item)
        if label == ITEM:
            begun = evaluation.item_begun(context)
            return None if begun is None else (begun, rows.value(begun))
        if label == OPEN_OBJECT:
            opened = evaluation.open(context, JsonType.OBJECT)
            return None if opened is None else (opened, rows.members(opened))
        if label == OPEN_ARRAY:
            opened = evaluation.open(context, JsonType.ARRAY)
            if opened is None:
                return None
            return rows.first_item(opened, evaluation.item_begun(opened))
        meaning = self.labels.meaning(label)
        if isinstance(meaning, Judged):
            return self._value_done(context, meaning.verdict, item)
        if isinstance(meaning, EmptyArray):
            return self._value_done(self.contexts.parents[context], meaning.verdict, item)
        if isinstance(meaning, Key):
            named = evaluation.name_written(context, meaning.name)
        else:
            assert isinstance(meaning, KeyClass), meaning
            if key is None:
                return self._unknown_name(evaluation.behind_names(context), meaning.number)
            named = evaluation.class_written(context, meaning.number, key)
        return None if named is None else (named, rows.colon_and_value(named))

    def _unknown_name(self, context: int, number: int) -> tuple[int, int] | None:
        """What is behind a free name of a class, whichever it is."""
        at = context, number
        if at not in self._behind_unknown_names:
            named = self.evaluation.class_written(context, number, None)
            found = None if named is None else (named, self.rows.colon_and_value(named))
            self._behind_unknown_names[at] = found
        return self._behind_unknown_names[at]

    def _value_done(self, context: int, verdict: int, item: bytes | None) -> tuple[int, int] | None:
        if item is not None:
            return self._behind_value(context, verdict, item)
        # Strings, numbers and every closing bracket of a value meet here.
        key = context, verdict
        if key not in self._behind_values:
            self._behind_values[key] = self._behind_value(context, verdict, None)
        return self._behind_values[key]

    def _behind_value(
        self, context: int, verdict: int, item: bytes | None
    ) -> tuple[int, int] | None:
        if not self.evaluation.accepts(context, verdict):
            return None
        if context == ROOT:
            return ROOT, END_ROW
        behind = self.evaluation.value_done(context, verdict, item)
        if behind is None:
            return None
        frame = self.contexts.frames[behind]
        if isinstance(frame, ArrayFrame):
            return behind, self.rows.next_item(behind)
        return behind, self.rows.members(behind)

    def ends_value_of(self, context: int, label: int) -> int | None:
        """The context in which a value ends by ``label``, ``None`` for other labels."""
        if label == DONE:
            return context
        if label == CLOSE:
            return self.contexts.parents[context]
        if label in _OPENING:
            return None
        meaning = self.labels.meaning(label)
        if isinstance(meaning, EmptyArray):
            return self.contexts.parents[context]
        return context if isinstance(meaning, Judged) else None

    def remember_joint(self, context: int, label: int) -> None:
        """Enter what ``resolve`` says without a text into the table that walks read."""
        self.joints.put(context, label, *self.joint(context, label))

    def joint(self, context: int, label: int) -> tuple[int, int]:
        """What a label leads to in a context, as the table of joints says it."""
        at = context, label
        while True:
            if self._needs_text(*at):
                return EXACT, DEAD
            resolved = self.resolve(*at)
            if resolved is None:
                return at[0], DEAD
            if not self.table.exits[resolved[1]]:
                return resolved
            at = resolved[0], int(self.table.label[resolved[1]])

    def _needs_text(self, context: int, label: int) -> bool:
        """Whether what follows a label depends on which item or name was written."""
        if not self.contexts.depth(context) and label in _TEXTLESS:
            return False
        ended = self.ends_value_of(context, label)
        if ended is None:
            meaning = self.labels.meaning(label)
            if isinstance(meaning, KeyClass):
                return self.evaluation.is_rare(context, meaning.number)
            return False
        if not self._remembers(ended):
            return False
        return ended != context or not self.evaluation.is_roomy(ended)

    def _remembers(self, context: int) -> bool:
        frame = self.contexts.frames[context]
        return isinstance(frame, Pending) and frame.remembers

    def _resolve(
        self, context: int, label: int, texts: tuple[bytes, ...], key: bytes | None = None
    ) -> tuple[int, int, tuple[bytes, ...]] | None:
        """``resolve`` with the texts that are being remembered."""
        ended = self.ends_value_of(context, label)
        item = None
        if ended is not None and self._remembers(ended):
            item = texts[self.contexts.depth(ended) - 1]
        resolved = self.resolve(context, label, item=item, key=key)
        if resolved is None:
            return None
        behind, row = resolved
        depth = self.contexts.depth(behind)
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
            return self._rest(state.context, _FROM_HERE, state)
        label = int(self.table.aim[state.row])
        if label == DEAD:
            return len(self.shortest_end(state))
        left = int(self.table.left[state.row]) + self._owed(state)
        return left + self._rest(state.context, label, state)

    def _rest(self, context: int, label: int, state: State) -> int:
        """Bytes from a label to the end of the document, or from a state between two values."""
        rest = self._rests.get((context, label))
        if rest is None:
            if context == ROOT and label == DONE:
                rest = 0
            elif label == _FROM_HERE:
                rest = len(self.shortest_end(state))
            else:
                resolved = self._resolve(context, label, ())
                assert resolved is not None, (context, label)
                rest = len(self.shortest_end(State(resolved[0], resolved[1], 0, resolved[2])))
            self._rests[context, label] = rest
        return rest

    def _owed(self, state: State) -> int:
        """Code points that a string still needs."""
        return max(0, int(self.table.low[state.row]) - state.count)

    def shortest_end(self, state: State) -> bytes:
        """Bytes that complete the document from here, close to as few as can be.

        Behind every byte of it the shortest end is no longer than the rest of it. Where
        ``bytes_left`` was asked for, it spends little and needs no more contexts or rows.
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
                joint = self._joint(at, byte)
                if joint is not None:
                    passed.append((len(text), joint))
                text.append(byte)
                at = reached
        return self._remembered_end(state, passed, bytes(text))

    def _joint(self, state: State, byte: int) -> State | None:
        """The state between two blocks where one ends without a byte of its own, as numbers do."""
        has_label = int(self.table.label[state.row]) != DEAD
        ends = has_label and self.table.step(state.row, byte) == DEAD
        return self._behind_label(state) if ends else None

    def _behind_label(self, state: State) -> State | None:
        """The state after the label of a row; ``None`` where it has none, or must not take it."""
        label = int(self.table.label[state.row])
        if label == DEAD:
            return None
        resolved = self._resolve(state.context, label, state.texts)
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
            return self.evaluation.end(state.context)
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
        return bytes(text) + self.rows.scalars.filler * owed

    def _rest_of_key(self, state: State) -> bytes:
        """What closes a name that may stand here, one that is owed if it begins so."""
        begun = state.texts[-1]
        owed = self.evaluation.end(state.context).lstrip(b",")
        for name in json.loads(b"{" + owed):
            key = json_key(name)[1:]
            if key.startswith(begun):
                return key[len(begun) :]
        for text in itertools.islice(self._ends_of_key(state.row), _KEY_TRIES):
            if self._name_may_stand(state.context, state.texts[-1] + text[:-1]):
                return text
        raise AssertionError(f"no name is left at {state}")

    def _can_close_key(self, context: int, row: int, begun: bytes) -> bool:
        if self.table.ends[row] > self.contexts.taken(context):
            return True
        at = (context, row, begun)
        found = self._closable.get(at)
        if found is None:
            ends = itertools.islice(self._ends_of_key(row), _KEY_TRIES)
            found = any(self._name_may_stand(context, begun + text[:-1]) for text in ends)
            self._closable[at] = found
        return found

    def _name_may_stand(self, context: int, key: bytes) -> bool:
        frame = self.contexts.frames[context]
        assert isinstance(frame, ObjectFrame), frame
        order = self.evaluation.objects.orders[frame.order]
        if key in order.spelled:
            name = json.loads(b'"' + key + b'"')
            return self.evaluation.name_written(context, name) is not None
        return key not in self.free_keys_of(context)

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
        """Raise AssertionError unless table, contexts and joints agree with one another."""
        self.table.check()
        for number, parent in enumerate(self.contexts.parents[1:], start=1):
            assert 0 <= parent < number, (number, parent)
        slots = self.joints.slots
        used = slots[slots[:, KEY] != EMPTY_SLOT]
        assert len(used) == len(self.joints), (len(used), len(self.joints))
        assert (used[:, TARGET] < len(self.contexts)).all()
        assert (used[:, ROW] < self.table.num_rows).all()

    def _empty(self) -> UnsatisfiableError | LimitExceededError:
        """Why there is no document."""
        place = self.evaluation.fuel.place
        pointer = "" if place is None else self.evaluation.restriction.grammar.pointer(place)
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
