"""What exit actions do to the stack of a JSON document: open and close containers, end values."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.assertions import JsonType
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
from guided.json_schema.machine.stacks import ROOT, ArrayFrame, Pending
from guided.machine.recognizer import State, state_of
from guided.machine.table import END_ROW

__all__ = ["Exits"]

_OPENING: Final = frozenset((ITEM, OPEN_OBJECT, OPEN_ARRAY))
_TEXTLESS: Final = frozenset((DONE, CLOSE, *_OPENING))
"""Actions that need a text only where one is remembered."""


class Exits:
    """Takes exit actions: each returns a stack and the row where what follows begins.

    ``None`` instead means that the action must not be taken. Results are never dropped, and
    entering a stack may lay down rows.
    """

    def __init__(self, evaluation: Evaluation, rows: DocumentStates) -> None:
        self._evaluation = evaluation
        self._stacks = evaluation.stacks
        self._rows = rows
        self._meaning = rows.labels.meaning
        # Strings, numbers and every closing bracket of a value are handled in one place.
        self._after_values: dict[tuple[int, int], tuple[int, int] | None] = {}
        """By stack and truth vector, for values whose text is not known or does not matter."""
        self._after_unknown_names: dict[tuple[int, int], tuple[int, int] | None] = {}
        """By a stack of ``after_names`` and the number of a class."""

    def take(
        self, stack: int, action: int, texts: tuple[bytes, ...], key: bytes | None = None
    ) -> State | None:
        """Return the state after an action with the texts that are being remembered.

        ``texts`` has one for each value that ``stack`` remembers; that of a free name may follow.
        The state keeps those of values that are still being written, and gets an empty one for a
        value that begins. ``None`` if the action must not be taken; ``key`` as for ``resolve``.
        """
        ended = self._ends_value_of(stack, action)
        item = None
        # Remembered texts are in order from the outermost, so that of a value is at its depth.
        if ended is not None and self._remembers(ended):
            item = texts[self._stacks.depth(ended) - 1]
        resolved = self.resolve(stack, action, item=item, key=key)
        if resolved is None:
            return None
        after, row = resolved
        depth = self._stacks.depth(after)
        texts = texts[:depth]
        return state_of(after, row, 0, texts + (b"",) * (depth - len(texts)))

    def resolve(
        self, stack: int, action: int, *, item: bytes | None = None, key: bytes | None = None
    ) -> tuple[int, int] | None:
        """Return the stack and the row after an action, ``None`` if it must not be taken.

        ``stack`` is that of the container for CLOSE, ITEM and names. For DONE, ``Done``,
        OPEN_OBJECT and OPEN_ARRAY it is that of the awaited value, for ``EmptyArray`` that of the
        first item.
        ``item`` is the text of the value that ends, where the stack remembers it; ``key`` that of a
        free name that is closed: without it the set of names becomes unknown. Without ``item`` and
        ``key`` the result is never dropped (``JsonMachine.transition``), so it must depend only on
        stack and action. Stacks and rows may be added.
        """
        evaluation, rows = self._evaluation, self._rows
        if action == DONE:  # the ``Done`` of truth vector 1, by far the most frequent
            return self._value_done(stack, 1, item)
        if action == CLOSE:
            truth = evaluation.awaited.closed(stack)
            return self._value_done(self._stacks.parents[stack], truth, item)
        if action == ITEM:
            begun = evaluation.items.begun(stack)
            return None if begun is None else (begun, rows.value(begun))
        if action == OPEN_OBJECT:
            opened = evaluation.awaited.open(stack, JsonType.OBJECT)
            return None if opened is None else (opened, rows.members(opened))
        if action == OPEN_ARRAY:
            opened = evaluation.awaited.open(stack, JsonType.ARRAY)
            if opened is None:
                return None
            return rows.first_item(opened, evaluation.items.begun(opened))
        meaning = self._meaning(action)
        if isinstance(meaning, Done):
            return self._value_done(stack, meaning.truth, item)
        if isinstance(meaning, EmptyArray):
            return self._value_done(self._stacks.parents[stack], meaning.truth, item)
        if isinstance(meaning, Key):
            named = evaluation.names.name_written(stack, meaning.name)
        else:
            assert isinstance(meaning, KeyClass), meaning
            if key is None:
                # Whichever name it is, the same follows in all stacks that ``after_names`` maps to
                # one, so it is found once for all of them.
                return self._unknown_name(evaluation.names.after_names(stack), meaning.number)
            named = evaluation.names.class_written(stack, meaning.number, key)
        return None if named is None else (named, rows.colon_and_value(named))

    def needs_text(self, stack: int, action: int) -> bool:
        """Return whether what follows an action depends on which item or name was written.

        If so, ``resolve`` without that text cannot decide what follows: walks leave it to the exact
        state (EXACT). ``True`` is always right and only costs time.
        """
        if not self._stacks.depth(stack) and action in _TEXTLESS:
            return False
        ended = self._ends_value_of(stack, action)
        if ended is None:
            meaning = self._meaning(action)
            if isinstance(meaning, KeyClass):
                return self._evaluation.names.is_rare(stack, meaning.number)
            return False
        if not self._remembers(ended):
            return False
        # ``is_roomy`` is about scalars; a value that ends in another stack is a container.
        return ended != stack or not self._evaluation.items.is_roomy(ended)

    def _ends_value_of(self, stack: int, action: int) -> int | None:
        """Return the stack in which a value ends by an action, ``None`` for other actions.

        It is the stack that ``resolve`` passes to ``_value_done`` for the same action: change both
        or none.
        """
        if action == DONE:
            return stack
        if action == CLOSE:
            return self._stacks.parents[stack]
        if action in _OPENING:
            return None
        meaning = self._meaning(action)
        if isinstance(meaning, EmptyArray):
            return self._stacks.parents[stack]
        return stack if isinstance(meaning, Done) else None

    def _remembers(self, stack: int) -> bool:
        """Return whether the text of the value awaited in a stack has to be remembered."""
        frame = self._stacks.frames[stack]
        return isinstance(frame, Pending) and frame.remembers

    def _unknown_name(self, stack: int, number: int) -> tuple[int, int] | None:
        """Return what follows any free name of a class; ``None`` if none may be written.

        ``stack`` is one that ``after_names`` returned. Kept, as it depends on no key.
        """
        at = stack, number
        if at not in self._after_unknown_names:
            named = self._evaluation.names.class_written(stack, number, None)
            found = None if named is None else (named, self._rows.colon_and_value(named))
            self._after_unknown_names[at] = found
        return self._after_unknown_names[at]

    def _value_done(self, stack: int, truth: int, item: bytes | None) -> tuple[int, int] | None:
        """``_after_value``, remembered unless it depends on the text of an item.

        What is remembered has to be final: compiled code does not read a transition again.
        """
        if item is not None:
            return self._after_value(stack, truth, item)
        key = stack, truth
        if key not in self._after_values:
            self._after_values[key] = self._after_value(stack, truth, None)
        return self._after_values[key]

    def _after_value(self, stack: int, truth: int, item: bytes | None) -> tuple[int, int] | None:
        """Return stack and row after a value with a truth vector; ``None`` if it must not.

        ``item`` is its text, where later items depend on it and it is known.
        """
        # This also decides for the document, and is remembered; ``value_done`` below may still
        # refuse an item for its text, which is not in the truth vector.
        if not self._evaluation.awaited.accepts(stack, truth):
            return None
        if stack == ROOT:
            return ROOT, END_ROW
        after = self._evaluation.awaited.value_done(stack, truth, item)
        if after is None:
            return None
        frame = self._stacks.frames[after]
        if isinstance(frame, ArrayFrame):
            return after, self._rows.next_item(after)
        return after, self._rows.members(after)
