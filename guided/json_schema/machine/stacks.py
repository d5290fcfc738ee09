"""Stacks of open containers, interned as small ints.

A stack is an int, its id: equal stacks have equal ids, so that results can be cached by stack. It
stands for a frame and the stack around it, its parent:

    {"a":[1,        stack   frame                                      parent
      ^  ^          0 ROOT  AwaitedValue  the document is awaited      0
      |  |          1       ObjectFrame   between two members          0
      |  |          2       AwaitedValue  the value of "a" is awaited  0
      |  |          3       ArrayFrame    between two items            2
      |  `--------  4       AwaitedValue  the second item is awaited   2

An ``AwaitedValue`` replaces its container, which it holds. When its value is done the
container comes back, with less left to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import Formula, Leaf
from guided.machine.facts import (
    KNOWLEDGE,
    KNOWN,
    NAMES_TAKEN,
    NONE,
    NUM_TEXTS,
    TEXT_DECIDES,
    UNKNOWN,
    WIDTH,
)
from guided.machine.stack_table import StackTable

__all__ = [
    "MANY_NAMES",
    "NO_NAMES",
    "ROOT",
    "UNKNOWN_NAMES",
    "ArrayFrame",
    "AwaitedValue",
    "Frame",
    "ObjectFrame",
    "Stacks",
    "accepts_any_fitting",
]

ROOT: Final = 0
"""The stack of the whole document: its value is awaited."""
NO_NAMES: Final = 0
"""The id of the empty set of additional names."""
UNKNOWN_NAMES: Final = -1
"""In place of the id of a set: additional names were written, and a walk over many tokens at once
does not know which."""
MANY_NAMES: Final = 2**30
"""The count of taken names of an object whose additional names are unknown."""


class ObjectFrame(NamedTuple):
    """An open object, between two members."""

    goals: tuple[Formula, ...]
    """What is left to fit of each formula asked of the object; bits of its truth vector."""
    required: bool
    """Whether there is one goal, and it has to be reached."""
    order: int
    """Which names the schema declares for this object: an index into ``ObjectRules.orders``."""
    names_passed: int
    """Which of those names were written or skipped; see ``NameOrder``, which alone reads it."""
    additional_set: int = NO_NAMES
    """The id of the set of additional names so far; see ``Stacks.add_name``."""
    has_members: bool = False
    num_additional: int = 0
    """Additional members so far, up to ``JsonOptions.max_additional_members``; 0 without that."""


class ArrayFrame(NamedTuple):
    """An open array, between two items."""

    goals: tuple[Formula, ...]
    required: bool
    """Both as in ``ObjectFrame``."""
    has_items: bool = False
    num_items: int = 0
    """Items so far, up to ``JsonOptions.max_array_items``; 0 without that."""
    has_unknown_item: bool = False
    """Whether an earlier item from which others must differ is unknown, because a walk over many
    tokens at once does not know its text."""


class AwaitedValue(NamedTuple):
    """A container whose next value is awaited, and the formulas asked of that value.

    ``frame`` is the container with that value counted in, ``None`` for the whole document. With
    ``required`` the value has to fit ``formulas[0]``.
    """

    frame: ObjectFrame | ArrayFrame | None
    formulas: tuple[Formula, ...]
    required: bool
    dependent_assertions: tuple[tuple[Leaf, int], ...] = ()
    """Pairs ``(leaf, i)``: the container's assertion ``leaf`` depends on whether the value fits
    ``formulas[i]``."""
    remembers_text: bool = False
    """Whether what may follow the value depends on its text."""
    has_unknown_item: bool = False
    """See ``ArrayFrame``."""
    always_completable: bool = False
    """Whether a completion follows any value that fits: all that the container owes may still come,
    as when it opened, or the array may close after it."""


def accepts_any_fitting(awaited: AwaitedValue) -> bool:
    """Return whether any value that fits may be written, whatever else is open around it."""
    return awaited.frame is None or awaited.always_completable


Frame: TypeAlias = ObjectFrame | ArrayFrame | AwaitedValue


class Stacks(StackTable[Frame]):
    """Interns stacks of frames, and sets of additional names: equal ones have equal ids.

    It only grows: an id keeps its meaning, so caches and compiled code may store it.
    """

    def __init__(self, root: AwaitedValue, max_stacks: int) -> None:
        super().__init__([root])
        self.max_stacks = max_stacks
        self.parents: list[int] = [ROOT]
        """By stack, like ``frames`` and the rows of ``facts``. No stack is ever dropped."""
        self.order_sizes: list[int] = []
        """How many names each of ``ObjectRules.orders`` has; ``ObjectRules`` appends to it."""
        self._stack_by_frame: dict[tuple[Frame, int], int] = {(root, ROOT): ROOT}
        """The stack by frame and parent: the inverse of ``frames`` and ``parents``."""
        self._name_set_entries: list[tuple[int, bytes]] = [(NO_NAMES, b"")]
        """By set of additional names: the set before its latest name, and that name."""
        self._name_counts: list[int] = [0]
        """How many names each of these sets has."""
        self._name_set_by_entry: dict[tuple[int, bytes], int] = {}
        """The inverse of ``_name_set_entries``."""

    def enter(self, frame: Frame, parent: int) -> int:
        """Return the stack of ``frame`` inside ``parent``, added if it is new.

        An ``AwaitedValue`` has the parent of its container. The order of an object has to be in
        ``order_sizes`` already. Raises LimitExceededError past ``max_stacks``.
        """
        # One look-up decides whether the stack is known or new: this runs for each transition.
        next_stack = len(self.frames)
        stack = self._stack_by_frame.setdefault((frame, parent), next_stack)
        if stack == next_stack:
            if stack >= self.max_stacks:
                # Removed again, or the stack would seem to exist.
                del self._stack_by_frame[frame, parent]
                raise LimitExceededError(
                    f"the recogniser needs more than {self.max_stacks} stacks",
                    limit=self.max_stacks,
                    field="constraint",
                )
            self.append(frame)
            self.parents.append(parent)
            facts, at = self._flat, WIDTH * stack  # read now: ``append`` may have replaced it
            # Compiled walks read these facts, and cannot ask Python for them.
            around = num_texts = facts[WIDTH * parent + NUM_TEXTS]
            if isinstance(frame, ObjectFrame):
                knowledge = _key_knowledge(frame)
                if knowledge == KNOWN:
                    self.with_keys.append(stack)
                facts[at + KNOWLEDGE], facts[at + NAMES_TAKEN] = knowledge, self._max_taken(frame)
            elif isinstance(frame, AwaitedValue):
                num_texts += frame.remembers_text
            if num_texts:
                facts[at + NUM_TEXTS] = num_texts
                facts[at + TEXT_DECIDES] = around > 0 or not _is_free(frame)
        return stack

    def additional_names(self, stack: int) -> set[bytes]:
        """Return the names of an open object so far that the schema does not spell out."""
        frame = self.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return set(self.iterate_names(frame.additional_set))

    def add_name(self, name_set: int, name: bytes) -> int:
        """Return the id of a set with one more name, which must not be in it yet.

        ``name_set`` must not be UNKNOWN_NAMES, and ``name`` is as JSON spells it, without the
        quotes. The same names in another order have another id.
        """
        found = self._name_set_by_entry.setdefault((name_set, name), len(self._name_set_entries))
        if found == len(self._name_set_entries):
            self._name_set_entries.append((name_set, name))
            self._name_counts.append(self._name_counts[name_set] + 1)
        return found

    def _max_taken(self, frame: ObjectFrame) -> int:
        """Compute ``max_names_taken``: MANY_NAMES if the additional names are unknown."""
        if frame.additional_set == UNKNOWN_NAMES:
            return MANY_NAMES
        return self._name_counts[frame.additional_set] + self.order_sizes[frame.order]

    def iterate_names(self, name_set: int) -> Iterator[bytes]:
        """Yield the names in a set, the latest first; none for an unknown set."""
        while name_set not in (NO_NAMES, UNKNOWN_NAMES):
            name_set, name = self._name_set_entries[name_set]
            yield name


def _is_free(frame: Frame) -> bool:
    """Return whether a frame awaits an item that is compared only with later ones once it fits."""
    return (
        isinstance(frame, AwaitedValue) and frame.always_completable and not frame.has_unknown_item
    )


def _key_knowledge(frame: ObjectFrame) -> int:
    """Return the KNOWLEDGE fact of a stack; see ``guided.machine.facts``."""
    if frame.additional_set == NO_NAMES:
        return NONE
    return UNKNOWN if frame.additional_set == UNKNOWN_NAMES else KNOWN
