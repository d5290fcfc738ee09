"""Stacks of open containers, interned as small ints.

Equal stacks have equal numbers, so that results can be cached by number. A stack is a frame and the
number of the stack around it:

    {"a":[1,        number  frame                                     parent
      ^  ^          0 ROOT  AwaitedValue    the document is awaited        0
      |  |          1       ObjectFrame  between two members          0
      |  |          2       AwaitedValue    the value of "a" is awaited    0
      |  |          3       ArrayFrame   between two items            2
      |  `--------  4       AwaitedValue    the second item is awaited     2

A ``AwaitedValue`` takes the place of its container, which it holds. When its value is done the container
comes back, with less left to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import Formula, Leaf
from guided.machine.facts import KNOWLEDGE, KNOWN, NAMES_TAKEN, NONE, NUM_TEXTS, UNKNOWN

__all__ = [
    "MANY_NAMES",
    "NO_NAMES",
    "ROOT",
    "UNKNOWN_NAMES",
    "ArrayFrame",
    "Frame",
    "ObjectFrame",
    "AwaitedValue",
    "Stacks",
    "accepts_any_fitting",
]

ROOT: Final = 0
"""The stack of the whole document: its value is awaited."""
NO_NAMES: Final = 0
"""The number of the empty set of free keys."""
UNKNOWN_NAMES: Final = -1
"""Some free keys were written, and a walk over many tokens at once does not know which."""
MANY_NAMES: Final = 2**30
"""The number of taken names of an object whose free keys are unknown."""


class ObjectFrame(NamedTuple):
    """An open object, between two members."""

    goals: tuple[Formula, ...]
    """What is left to fit of each formula asked of the object; bits of its truth vector."""
    required: bool
    """Whether there is one goal, and it has to be reached."""
    order: int
    """The number of the list of names that the schema spells out for this object."""
    names_passed: int
    """Which of those names were written or skipped: the place of the last one, or if any order is
    allowed, one bit for each."""
    additional_set: int = NO_NAMES
    """The set of other keys so far."""
    has_members: bool = False


class ArrayFrame(NamedTuple):
    """An open array, between two items."""

    goals: tuple[Formula, ...]
    required: bool
    """Both as in ``ObjectFrame``."""
    has_items: bool = False
    has_unknown_item: bool = False
    """Whether an earlier item from which others must differ is unknown, because a walk over many
    tokens at once does not know its text."""


class AwaitedValue(NamedTuple):
    """A container whose next value is awaited, and the formulas asked of that value.

    ``frame`` is the container with that value counted in, ``None`` for the whole document. With
    ``required`` the value has to fit ``formulas[0]``. A link ``(leaf, i)`` says that the
    container's assertion ``leaf`` depends on whether the value fits ``formulas[i]``.
    """

    frame: ObjectFrame | ArrayFrame | None
    formulas: tuple[Formula, ...]
    required: bool
    dependent_assertions: tuple[tuple[Leaf, int], ...] = ()
    remembers_text: bool = False
    """Whether what may follow the value depends on its text."""
    has_unknown_item: bool = False
    """See ``ArrayFrame``."""
    always_completable: bool = False
    """Whether a completion follows any value that fits: all that the container owes may still come,
    as when it opened, or the array may close after it."""


def accepts_any_fitting(pending: AwaitedValue) -> bool:
    """Return whether any value that fits may be written, whatever else is open around it."""
    return pending.frame is None or pending.always_completable


Frame: TypeAlias = ObjectFrame | ArrayFrame | AwaitedValue


class Stacks:
    """Interns stacks of frames and sets of free keys; equal stacks have equal numbers.

    It only grows: a number keeps its meaning, so caches and compiled code may store it.
    """

    def __init__(self, root: AwaitedValue, max_stacks: int) -> None:
        self.max_stacks = max_stacks
        self.frames: list[Frame] = [root]
        self.parents: list[int] = [ROOT]
        """By stack, like ``frames`` and the rows of ``facts``. No stack is ever dropped."""
        self._set_facts(np.zeros((256, 3), dtype=np.int32))
        self.with_keys: list[int] = []
        """The stacks whose knowledge is KNOWN."""
        self.order_sizes: list[int] = []
        """The number of names in each order of an object; ``ObjectRules`` keeps it up to date."""
        self._stack_by_frame: dict[tuple[Frame, int], int] = {(root, ROOT): ROOT}
        """The stack by frame and parent: the inverse of ``frames`` and ``parents``."""
        self._name_set_entries: list[tuple[int, bytes]] = [(NO_NAMES, b"")]
        """By the number of a set of free keys: the set before its latest key, and that key."""
        self._name_counts: list[int] = [0]
        """How many keys each of these sets has."""
        self._name_set_by_entry: dict[tuple[int, bytes], int] = {}
        """The inverse of ``_key_set_entries``."""

    def _set_facts(self, facts: NDArray[np.int32]) -> None:
        """Set ``facts`` and its view ``_flat``, which share their memory.

        Called again when the array is full: compiled code has to read ``facts`` again once a stack
        was added.
        """
        self.facts = facts
        """What compiled code reads about each stack; see ``guided.machine.facts``."""
        self._flat = facts.reshape(-1).data
        """Where Python reads and writes single facts, many times as fast as with numpy."""

    def __len__(self) -> int:
        return len(self.frames)

    def enter(self, frame: Frame, parent: int) -> int:
        """Return the stack of ``frame`` inside ``parent``, added if it is new.

        A ``AwaitedValue`` has the parent of its container. The order of an object has to be in
        ``order_sizes`` already. Raises LimitExceededError past ``max_stacks``.
        """
        # One look-up decides whether the stack is known or new: this runs for each transition.
        next_number = len(self.frames)
        number = self._stack_by_frame.setdefault((frame, parent), next_number)
        if number == next_number:
            if number >= self.max_stacks:
                # Removed again, or the stack would seem to exist.
                del self._stack_by_frame[frame, parent]
                raise LimitExceededError(
                    f"the recogniser needs more than {self.max_stacks} stacks",
                    limit=self.max_stacks,
                    field="constraint",
                )
            self.frames.append(frame)
            self.parents.append(parent)
            if number >= len(self.facts):
                self._set_facts(np.append(self.facts, np.zeros_like(self.facts), axis=0))
            facts, at = self._flat, 3 * number
            # Compiled walks read these facts, and cannot ask Python for them.
            num_texts = facts[3 * parent + NUM_TEXTS]
            if isinstance(frame, ObjectFrame):
                knowledge = _key_knowledge(frame)
                if knowledge == KNOWN:
                    self.with_keys.append(number)
                facts[at + KNOWLEDGE], facts[at + NAMES_TAKEN] = knowledge, self._max_taken(frame)
            elif isinstance(frame, AwaitedValue):
                num_texts += frame.remembers_text
            if num_texts:
                facts[at + NUM_TEXTS] = num_texts
        return number

    def num_texts(self, number: int) -> int:
        """Return the number of values being written whose text is remembered."""
        return self._flat[3 * number + NUM_TEXTS]

    def max_names_taken(self, number: int) -> int:
        """Return an upper bound on the names that the next member of an object must not have.

        It counts the free keys so far, and all names that the schema spells out.
        """
        return self._flat[3 * number + NAMES_TAKEN]

    def additional_names(self, number: int) -> set[bytes]:
        """Return the names of an open object so far that the schema does not spell out."""
        frame = self.frames[number]
        assert isinstance(frame, ObjectFrame), frame
        return set(self.iterate_names(frame.additional_set))

    def add_name(self, keys: int, key: bytes) -> int:
        """Return the number of the set ``keys`` with one more key, which must not be in it yet.

        ``keys`` must not be UNKNOWN_KEYS. The same keys in another order have another number.
        """
        number = self._name_set_by_entry.setdefault((keys, key), len(self._name_set_entries))
        if number == len(self._name_set_entries):
            self._name_set_entries.append((keys, key))
            self._name_counts.append(self._name_counts[keys] + 1)
        return number

    def _max_taken(self, frame: ObjectFrame) -> int:
        """Compute ``max_names_taken``: MANY_NAMES if the free keys are unknown."""
        if frame.additional_set == UNKNOWN_NAMES:
            return MANY_NAMES
        return self._name_counts[frame.additional_set] + self.order_sizes[frame.order]

    def iterate_names(self, keys: int) -> Iterator[bytes]:
        """Yield the keys of a set, the latest first; none for an unknown set."""
        while keys not in (NO_NAMES, UNKNOWN_NAMES):
            keys, key = self._name_set_entries[keys]
            yield key


def _key_knowledge(frame: ObjectFrame) -> int:
    """Return the KNOWLEDGE fact of a stack; see ``guided.machine.facts``."""
    if frame.additional_set == NO_NAMES:
        return NONE
    return UNKNOWN if frame.additional_set == UNKNOWN_NAMES else KNOWN
