"""The recogniser of JSON constraints: a pushdown machine over blocks of table rows.

A state is a context (the nest of open containers) and a row (the place inside a block). Inside a
block a byte moves the row by a table look-up. Where a block ends its label is *resolved* in the
context, which enters or leaves containers and gives the row where the next block begins. Only
these joints run Python, each once: they are remembered in a table that the mask walk reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from guided.automata.dfa import DEAD
from guided.errors import LimitExceededError, UnsatisfiableError
from guided.grammar.json_grammar import ArrayShape, JsonGrammar, ObjectShape
from guided.recognizer.contexts import (
    NO_KEYS,
    ROOT,
    UNKNOWN_KEYS,
    ArrayFrame,
    Contexts,
    ObjectFrame,
)
from guided.recognizer.joints import EMPTY_SLOT, JointTable
from guided.recognizer.json_rows import END_ROW, JsonRows
from guided.recognizer.labels import CLOSE, DONE, FREE_KEY, ITEM
from guided.recognizer.limits import RecognizerLimits
from guided.recognizer.shortest_values import MAX_SHORTEST_BYTES, Part, item_shape
from guided.recognizer.table import IN_KEY, KEY_CLOSED, STOP

__all__ = ["JsonMachine", "State"]


class State(NamedTuple):
    """A position in a document; equal states have equal continuations."""

    context: int
    row: int
    key: bytes | None = None
    """The text so far of the free key that is being written."""


class JsonMachine:
    """Recognises the documents of a ``JsonGrammar``, byte by byte.

    ``missing`` are bytes that the vocabulary cannot spell; no text that needs one is recognised.
    Not thread-safe. Raises UnsatisfiableError where no document is left, and LimitExceededError,
    from any method that may lay down rows, past ``limits``.
    """

    def __init__(
        self,
        grammar: JsonGrammar,
        missing: frozenset[int] = frozenset(),
        limits: RecognizerLimits | None = None,
    ) -> None:
        limits = limits or RecognizerLimits()
        self.rows = JsonRows(grammar, missing, limits.max_cells)
        self.contexts = Contexts(limits.max_contexts)
        self.joints = JointTable(self.rows.num_labels)
        self.table = self.rows.table
        self._shapes = grammar.shapes
        self._shortest = self.rows.shortest
        self._tails: list[int] = [0]
        if not self._shortest.possible(grammar.root):
            raise self._empty(grammar)
        self.start = State(ROOT, self.rows.value(grammar.root))

    # --- moving ---------------------------------------------------------------------------

    def step(self, state: State, byte: int) -> State | None:
        """The state behind ``byte``, ``None`` where it is not allowed; may lay down rows."""
        context, row, key = state
        target = self.table.step(row, byte)
        while target == DEAD:
            # The block may end here, and the byte may belong to what follows.
            label = int(self.table.label[row])
            if label == DEAD or (context == ROOT and label == DONE):
                return None
            context, row = self.resolve(context, label)
            target = self.table.step(row, byte)
        role = self.table.role[target]
        if role == IN_KEY:
            key = b"" if key is None else key + bytes((byte,))
        elif role == KEY_CLOSED:
            keys = self._object_frame(context).keys
            if any(key == taken for taken in self.contexts.keys(keys)):
                return None
        elif self.table.exits[target]:
            return State(*self._settle(context, target, key))
        else:
            key = None
        return State(context, target, key)

    def advance(self, state: State, text: bytes) -> State | None:
        """The state behind all bytes of ``text``, ``None`` where one is not allowed."""
        current: State | None = state
        for byte in text:
            if current is None:
                return None
            current = self.step(current, byte)
        return current

    def is_complete(self, state: State) -> bool:
        """Whether the document is complete and nothing may follow."""
        return state.row == END_ROW

    def is_accepting(self, state: State) -> bool:
        """Whether the document may end here."""
        return state.row == END_ROW or (
            state.context == ROOT and int(self.table.label[state.row]) == DONE
        )

    def only_byte(self, state: State) -> int | None:
        """The one byte that may follow, ``None`` where there is a choice or the text may end."""
        only = int(self.table.only[state.row])
        if only == DEAD or self.table.label[state.row] != DEAD:
            return None
        return only

    def free_keys(self, state: State) -> Iterator[bytes]:
        """The free keys that the innermost object already has, the latest first."""
        return self.contexts.keys(self._object_frame(state.context).keys)

    def owed_members(self, context: int) -> int:
        """Free members that the innermost object has to have at least."""
        return self._object(self._object_frame(context).shape).min_extra

    @property
    def fullness(self) -> float:
        """The share of its limits that the machine has grown to; it never shrinks."""
        return max(
            self.table.num_cells / self.table.max_cells,
            len(self.contexts) / self.contexts.max_contexts,
        )

    def check_room(self) -> None:
        """Raise LimitExceededError when the rest of the limits is needed to end documents."""
        if self.fullness > 0.5:
            raise LimitExceededError(
                f"the recogniser has {self.table.num_cells} cells and {len(self.contexts)} contexts"
                f" and may have half of {self.table.max_cells} and {self.contexts.max_contexts}",
                limit=self.table.max_cells,
                field="constraint",
                hint="ask for less at once: shorter strings, smaller lists, fewer members",
            )

    # --- joints ---------------------------------------------------------------------------

    def resolve(self, context: int, label: int, key: bytes | None = None) -> tuple[int, int]:
        """The context and the row behind ``label``.

        ``key`` is the text of the free key that FREE_KEY closes; without it the set of keys of the
        context becomes unknown.
        """
        if label == CLOSE:
            context, label = self.contexts.parents[context], DONE
        if label == DONE:
            return self._value_done(context)
        if label == ITEM:
            frame = self.contexts.frames[context]
            assert isinstance(frame, ArrayFrame), frame
            item = item_shape(self._array(frame.shape), frame.count)
            assert item is not None, frame
            return context, self.rows.value(item)
        if label == FREE_KEY:
            return self._free_key(context, key)
        index = self.rows.key_index(label)
        if index is not None:
            return self._named_key(context, index)
        shape, is_object = self.rows.opened(label)
        if is_object:
            inner = self.contexts.enter(ObjectFrame(shape, -1, 0, NO_KEYS), context)
            return inner, self.rows.members(shape, -1, 0, first=True)
        inner = self.contexts.enter(ArrayFrame(shape, 0), context)
        return inner, self.rows.first_item(shape)

    def remember_joint(self, context: int, label: int) -> None:
        """Enter what ``resolve`` says without a key into the table that walks read."""
        self.joints.put(context, label, *self._settle(*self.resolve(context, label)))

    def _settle(self, context: int, row: int, key: bytes | None = None) -> tuple[int, int]:
        """Take labels as long as nothing else is left to do."""
        while self.table.exits[row]:
            context, row = self.resolve(context, int(self.table.label[row]), key)
        return context, row

    def _value_done(self, context: int) -> tuple[int, int]:
        frame = self.contexts.frames[context]
        if frame is None:
            return ROOT, END_ROW
        if isinstance(frame, ObjectFrame):
            row = self.rows.members(frame.shape, frame.index, frame.extras, first=False)
            return context, row
        shape = self._array(frame.shape)
        matters = max(len(shape.prefix), shape.min_items, shape.max_items or 0)
        count = min(frame.count + 1, matters)
        context = self.contexts.enter(
            ArrayFrame(frame.shape, count), self.contexts.parents[context]
        )
        return context, self.rows.next_item(frame.shape, count)

    def _named_key(self, context: int, index: int) -> tuple[int, int]:
        frame = self._object_frame(context)
        inner = ObjectFrame(frame.shape, index, frame.extras, frame.keys)
        value = self._object(frame.shape).properties[index].value
        return (
            self.contexts.enter(inner, self.contexts.parents[context]),
            self.rows.value(value),
        )

    def _free_key(self, context: int, key: bytes | None) -> tuple[int, int]:
        frame = self._object_frame(context)
        shape = self._object(frame.shape)
        assert shape.extra is not None
        matters = max(shape.min_extra, shape.max_extra or 0)
        extras = min(frame.extras + 1, matters)
        keys = UNKNOWN_KEYS if key is None else self.contexts.with_key(frame.keys, key)
        inner = ObjectFrame(frame.shape, len(shape.properties), extras, keys)
        return (
            self.contexts.enter(inner, self.contexts.parents[context]),
            self.rows.value(shape.extra),
        )

    # --- the way out ----------------------------------------------------------------------

    def bytes_left(self, state: State) -> int:
        """Upper bound on the length of ``shortest_end``, in constant time."""
        context = state.context
        if self.table.wide[state.row]:
            context = self.contexts.parents[context]
        return int(self.table.left[state.row]) + self._tail(context)

    def shortest_end(self, state: State) -> bytes:
        """Bytes that complete the document from here, close to as few as can be."""
        text = bytearray()
        while not self.is_accepting(state):
            ahead = self._ahead(state)
            reached = self.advance(state, ahead)
            assert reached is not None, (state, ahead)
            text += ahead
            state = reached
        return bytes(text)

    def _ahead(self, state: State) -> bytes:
        """The next bytes of the way out."""
        if self.table.role[state.row] == IN_KEY:
            return self._rest_of_key(state)
        way = int(self.table.way[state.row])
        if way != STOP:
            return bytes((way,))
        # The block ends here, and the way goes on in the next one.
        label = int(self.table.label[state.row])
        return self._ahead(State(*self._settle(*self.resolve(state.context, label))))

    def _rest_of_key(self, state: State) -> bytes:
        """What closes a key: as a named one, or as a free one that is not taken yet."""
        text = bytearray()
        while True:
            way = int(self.table.way[state.row])
            if way == ord('"') and self.table.role[self.table.step(state.row, way)] != IN_KEY:
                break
            text.append(way)  # the rest of a character or of an escape
            reached = self.step(state, way)
            assert reached is not None, (state, way)
            state = reached
        more, number = b"", sum(1 for _ in self.free_keys(state))
        while self.advance(state, more + b'"') is None:
            more, number = b"%d" % number, number + 1
        return bytes(text) + more + b'"'

    def _tail(self, context: int) -> int:
        """Bytes at most from the end of the value in ``context`` to the end of the document."""
        while len(self._tails) <= context:
            number = len(self._tails)
            rest = self._shortest.parts_length(self._rest(number)) + 1
            self._tails.append(rest + self._tails[self.contexts.parents[number]])
        return self._tails[context]

    def _rest(self, context: int) -> Iterator[Part]:
        """What has to follow the value written in ``context``, less the closing bracket."""
        frame = self.contexts.frames[context]
        if isinstance(frame, ArrayFrame):
            return self._shortest.items(self._array(frame.shape), frame.count + 1)
        frame = self._object_frame(context)
        return self._shortest.members(self._object(frame.shape), frame.index, frame.extras)

    # --- parts ----------------------------------------------------------------------------

    def _object_frame(self, context: int) -> ObjectFrame:
        frame = self.contexts.frames[context]
        assert isinstance(frame, ObjectFrame), frame
        return frame

    def _object(self, number: int) -> ObjectShape:
        shape = self._shapes[number].object
        assert shape is not None, number
        return shape

    def _array(self, number: int) -> ArrayShape:
        shape = self._shapes[number].array
        assert shape is not None, number
        return shape

    def check(self) -> None:
        """Raise AssertionError unless table, contexts and joints agree with one another."""
        self.table.check()
        for number, parent in enumerate(self.contexts.parents[1:], start=1):
            assert 0 <= parent < number, (number, parent)
        used = self.joints.keys != EMPTY_SLOT
        assert used.sum() == len(self.joints), (used.sum(), len(self.joints))
        assert (self.joints.contexts[used] < len(self.contexts)).all()
        assert (self.joints.rows[used] < self.table.num_rows).all()

    def _empty(self, grammar: JsonGrammar) -> UnsatisfiableError | LimitExceededError:
        """Why there is no document."""
        if self._shortest.is_cut_short:
            return LimitExceededError(
                f"the shortest document has more than {MAX_SHORTEST_BYTES} bytes",
                limit=MAX_SHORTEST_BYTES,
                pointer=grammar.pointers[grammar.root],
            )
        return _unsatisfiable(grammar)


def _unsatisfiable(grammar: JsonGrammar) -> UnsatisfiableError:
    for pointer, remark in zip(grammar.pointers, grammar.remarks, strict=True):
        if remark is not None:
            return UnsatisfiableError(
                f"no document satisfies the schema: {remark}", pointer=pointer
            )
    return UnsatisfiableError(
        "no document satisfies the schema: every way through it is endless or contradictory",
        pointer=grammar.pointers[grammar.root],
    )
