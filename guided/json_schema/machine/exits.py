"""How exit actions change the stack of a JSON document: containers open and close, values end."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.machine.document_rows import DocumentRows
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
from guided.json_schema.machine.stacks import ROOT, ArrayFrame, AwaitedValue
from guided.machine.recognizer import State, state_of
from guided.machine.table import END_ROW
from guided.regular.dfa import DEAD

__all__ = ["Exits"]

_OPENING: Final = frozenset((ITEM, OPEN_OBJECT, OPEN_ARRAY))
_TEXTLESS: Final = frozenset((DONE, CLOSE, *_OPENING))
"""Actions that need a text only where one is remembered."""


class Exits:
    """Takes exit actions: each leads to a stack and the row where what follows begins.

    ``None`` instead means that the action must not be taken. Caches are never cleared. Methods may
    add stacks and rows, and raise LimitExceededError past their limits.
    """

    def __init__(self, evaluation: Evaluation, rows: DocumentRows) -> None:
        self._evaluation = evaluation
        self._stacks = evaluation.stacks
        self._rows = rows
        self._meaning = rows.exit_actions.meaning
        # Strings, numbers and every closing bracket of a value are handled in one place.
        self._after_value_cache: dict[tuple[int, int], tuple[int, int] | None] = {}
        """By stack and truth vector, for values whose text is unknown or does not matter."""
        self._after_unknown_name_cache: dict[tuple[int, int], tuple[int, int] | None] = {}
        """By a stack of ``skip_spelled_names`` and the id of a class."""

    def take(
        self, stack: int, action: int, texts: tuple[bytes, ...], key: bytes | None = None
    ) -> State | None:
        """Return the state after an action with the texts that are being remembered.

        ``texts`` has one for each value that ``stack`` remembers; that of an additional name may
        follow. The state keeps those of values that are still being written, and gets an empty one
        for a value that begins. ``None`` if the action must not be taken; ``key`` as for
        ``resolve``.
        """
        ended = self._ended_value(stack, action)
        item = None
        # Texts are ordered from the outermost value in.
        if ended is not None and self._remembers_text(ended[0]):
            item = texts[self._stacks.num_texts(ended[0]) - 1]
        resolved = self.resolve(stack, action, item=item, key=key)
        if resolved is None:
            return None
        after, row = resolved
        num_texts = self._stacks.num_texts(after)
        texts = texts[:num_texts]
        return state_of(after, row, 0, texts + (b"",) * (num_texts - len(texts)))

    def resolve(
        self, stack: int, action: int, *, item: bytes | None = None, key: bytes | None = None
    ) -> tuple[int, int] | None:
        """Return the stack and the row after an action, ``None`` if it must not be taken.

        ``stack`` is that of the container for CLOSE, ITEM and names, that of the awaited value for
        DONE, ``Done``, OPEN_OBJECT and OPEN_ARRAY, and that of the first item for ``EmptyArray``.
        ``item`` is the text of the value that ends, where the stack remembers it. ``key`` is the
        additional name that ends; without it the additional names of the object become unknown.
        Without both the result depends only on stack and action, as ``JsonMachine.transition``
        requires.
        """
        evaluation, rows = self._evaluation, self._rows
        ended = self._ended_value(stack, action)
        if ended is not None:
            return self._after_value(*ended, item)
        if action == ITEM:
            item_stack = evaluation.items.enter_item(stack)
            return None if item_stack is None else (item_stack, rows.before_value(item_stack))
        if action == OPEN_OBJECT:
            opened = evaluation.value_stacks.open(stack, JsonType.OBJECT)
            return None if opened is None else (opened, rows.before_member(opened))
        if action == OPEN_ARRAY:
            opened = evaluation.value_stacks.open(stack, JsonType.ARRAY)
            if opened is None:
                return None
            return rows.after_bracket(opened, evaluation.items.enter_item(opened))
        meaning = self._meaning(action)
        if isinstance(meaning, Key):
            named = evaluation.names.enter_named_value(stack, meaning.name)
        else:
            assert isinstance(meaning, KeyClass), meaning
            if key is None:
                # The same follows in all stacks that ``skip_spelled_names`` maps to one, so it is
                # found once for all of them.
                return self._after_unknown_name(
                    evaluation.names.skip_spelled_names(stack), meaning.class_id
                )
            named = evaluation.names.enter_class_value(stack, meaning.class_id, key)
        return None if named is None else (named, rows.after_name(named))

    def needs_text(self, stack: int, action: int) -> bool:
        """Return whether what follows an action depends on the text of the item or name.

        Then ``JsonMachine.transition`` returns NEEDS_EXACT_STATE: only a state with its texts can
        decide. A needless ``True`` only costs time.
        """
        if not self._stacks.num_texts(stack) and action in _TEXTLESS:
            return False
        ended = self._ended_value(stack, action)
        if ended is None:
            meaning = self._meaning(action)
            if isinstance(meaning, KeyClass):
                return self._evaluation.names.is_rare(stack, meaning.class_id)
            return False
        if not self._remembers_text(ended[0]):
            return False
        # ``ignores_text`` is about scalars; a value that ends in another stack is a container.
        meaning = self._meaning(action)
        is_string = isinstance(meaning, Done) and meaning.is_string
        return ended[0] != stack or not self._evaluation.items.ignores_text(*ended, is_string)

    def row_at_most(self, stack: int, action: int) -> int:
        """Return a row that reads every byte that may follow an action; DEAD if none is known."""
        ended = self._ended_value(stack, action)
        if ended is None:
            return DEAD
        frame = self._stacks.frames[ended[0]]
        is_item = isinstance(frame, AwaitedValue) and isinstance(frame.frame, ArrayFrame)
        return self._rows.after_any_item() if is_item else DEAD

    def _ended_value(self, stack: int, action: int) -> tuple[int, int] | None:
        """Return the stack that awaits the value which an action ends, and its truth vector.

        ``None`` for other actions.
        """
        if action == DONE:  # the ``Done`` of truth vector 1, by far the most frequent
            return stack, 1
        if action == CLOSE:
            truth_vector = self._evaluation.value_stacks.closing_vector(stack)
            return self._stacks.parents[stack], truth_vector
        if action in _OPENING:
            return None
        meaning = self._meaning(action)
        if isinstance(meaning, EmptyArray):
            return self._stacks.parents[stack], meaning.truth_vector
        return (stack, meaning.truth_vector) if isinstance(meaning, Done) else None

    def _remembers_text(self, stack: int) -> bool:
        """Return whether a stack awaits a value whose text has to be remembered."""
        frame = self._stacks.frames[stack]
        return isinstance(frame, AwaitedValue) and frame.remembers_text

    def _after_unknown_name(self, stack: int, class_id: int) -> tuple[int, int] | None:
        """Return what follows an unknown name of a class; ``None`` if none may be written.

        ``stack`` is one that ``skip_spelled_names`` returned.
        """
        at = stack, class_id
        if at not in self._after_unknown_name_cache:
            named = self._evaluation.names.enter_class_value(stack, class_id, None)
            found = None if named is None else (named, self._rows.after_name(named))
            self._after_unknown_name_cache[at] = found
        return self._after_unknown_name_cache[at]

    def _after_value(
        self, stack: int, truth_vector: int, item: bytes | None
    ) -> tuple[int, int] | None:
        """Return stack and row after a value with a truth vector; ``None`` if it must not stand.

        ``stack`` awaits the value. ``item`` is its text, where later items depend on it and it is
        known. Results without one are cached and final: compiled code does not read a transition
        again.
        """
        if item is not None:
            return self._compute_after_value(stack, truth_vector, item)
        key = stack, truth_vector
        if key not in self._after_value_cache:
            self._after_value_cache[key] = self._compute_after_value(stack, truth_vector, None)
        return self._after_value_cache[key]

    def _compute_after_value(
        self, stack: int, truth_vector: int, item: bytes | None
    ) -> tuple[int, int] | None:
        """Compute ``_after_value``."""
        # ``value_stacks.finish_value`` may still refuse an item for its text, which the truth
        # vector does not contain.
        if not self._evaluation.value_stacks.accepts(stack, truth_vector):
            return None
        if stack == ROOT:
            return ROOT, END_ROW
        after = self._evaluation.value_stacks.finish_value(stack, truth_vector, item)
        if after is None:
            return None
        frame = self._stacks.frames[after]
        if isinstance(frame, ArrayFrame):
            return after, self._rows.after_item(after)
        return after, self._rows.before_member(after)
