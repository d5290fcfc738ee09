"""Where in the nest of containers a recogniser stands: stacks of frames as small ints.

Equal stacks have equal numbers, so what is found out about one is found out once. A stack is a
frame and the number of the stack around it:

    {"a":[1,        number  frame                                     parent
      ^  ^          0 ROOT  Pending    the document is awaited        0
      |  |          1       ObjectFrame  between two members          0
      |  |          2       Pending    the value of "a" is awaited    0
      |  |          3       ArrayFrame   between two items            2
      |  `--------  4       Pending    the second item is awaited     2

A ``Pending`` takes the place of its container, which it holds. When its value is done the container
comes back, with less left to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import Formula, Leaf
from guided.machine.facts import KNOWLEDGE, KNOWN, NONE, TAKEN, TEXTS, UNKNOWN

__all__ = [
    "MANY_NAMES",
    "NO_KEYS",
    "ROOT",
    "UNKNOWN_KEYS",
    "ArrayFrame",
    "Frame",
    "ObjectFrame",
    "Pending",
    "Stacks",
    "is_sure",
]

ROOT: Final = 0
"""The stack of the whole document: its value is awaited."""
NO_KEYS: Final = 0
UNKNOWN_KEYS: Final = -1
"""Some free keys were written, and a walk over many tokens at once does not know which."""
MANY_NAMES: Final = 2**30


class ObjectFrame(NamedTuple):
    """An open object, between two members."""

    goals: tuple[Formula, ...]
    """What is left to fit of each formula asked of the object."""
    must: bool
    """Whether there is one goal, and it has to be reached."""
    order: int
    """The number of the list of names that the schema spells out for this object."""
    written: int
    """Which of those names were written or passed over: the place of the last one, or if any order
    is allowed, one bit for each."""
    keys: int = NO_KEYS
    """The set of other keys so far."""
    begun: bool = False


class ArrayFrame(NamedTuple):
    """An open array, between two items."""

    goals: tuple[Formula, ...]
    must: bool
    begun: bool = False
    hazy: bool = False
    """Whether an earlier item from which others must differ is unknown, because a walk over many
    tokens at once does not know its text."""


class Pending(NamedTuple):
    """A container whose next value is awaited, and what is asked of that value.

    With ``must`` the value has to fit the first of ``asks``. ``links`` says which assertions of the
    container fail unless the value fits the ask of that number.
    """

    frame: ObjectFrame | ArrayFrame | None
    asks: tuple[Formula, ...]
    must: bool
    links: tuple[tuple[Leaf, int], ...] = ()
    remembers: bool = False
    """Whether the text of the value matters to what may follow it."""
    hazy: bool = False
    """See ``ArrayFrame``."""
    sure: bool = False
    """Whether any value that fits leaves a completion: all that is owed is still to come, as when
    it opened, or the array may close after it."""


def is_sure(pending: Pending) -> bool:
    """Return whether any value that fits is accepted, whatever else is open around it."""
    return pending.frame is None or pending.sure


Frame: TypeAlias = ObjectFrame | ArrayFrame | Pending


class Stacks:
    """Interns stacks of frames and sets of free keys; equal stacks have equal numbers.

    It only grows: a number keeps its meaning, so that caches and compiled code may hold it.
    """

    def __init__(self, root: Pending, max_stacks: int) -> None:
        self.max_stacks = max_stacks
        self.frames: list[Frame] = [root]
        self.parents: list[int] = [ROOT]
        """By stack, like ``frames`` and the rows of ``facts``. No stack is ever dropped."""
        self._hold(np.zeros((256, 3), dtype=np.int32))
        self.with_keys: list[int] = []
        """The stacks whose knowledge is KNOWN."""
        self.order_sizes: list[int] = []
        """The number of names in each order of an object; ``ObjectRules`` keeps it up to date."""
        self._numbers: dict[tuple[Frame, int], int] = {(root, ROOT): ROOT}
        """The stack by frame and parent: the inverse of ``frames`` and ``parents``."""
        self._key_sets: list[tuple[int, bytes]] = [(NO_KEYS, b"")]
        """By the number of a set of free keys: the set before its latest key, and that key."""
        self._key_counts: list[int] = [0]
        """How many keys each of these sets has."""
        self._key_numbers: dict[tuple[int, bytes], int] = {}
        """The inverse of ``_key_sets``."""

    def _hold(self, facts: NDArray[np.int32]) -> None:
        """Set ``facts`` and ``_flat`` together: they are the same memory.

        Compiled code has to read ``facts`` again once a stack was added: a longer array replaces a
        full one.
        """
        self.facts = facts
        """What compiled code knows about each stack; see ``facts``."""
        self._flat = facts.reshape(-1).data
        """Where Python reads and writes single facts, many times as fast as with numpy."""

    def __len__(self) -> int:
        return len(self.frames)

    def enter(self, frame: Frame, parent: int) -> int:
        """Return the stack of ``frame`` inside ``parent``; raises LimitExceededError when full.

        A ``Pending`` has the parent of its container. The order of an object has to be in
        ``order_sizes`` already.
        """
        # One look-up decides whether the stack is known or new: this runs for each transition.
        next_number = len(self.frames)
        number = self._numbers.setdefault((frame, parent), next_number)
        if number == next_number:
            if number >= self.max_stacks:
                # Taken back, or the full table would seem to hold it.
                del self._numbers[frame, parent]
                raise LimitExceededError(
                    f"the recogniser needs more than {self.max_stacks} stacks",
                    limit=self.max_stacks,
                    field="constraint",
                )
            self.frames.append(frame)
            self.parents.append(parent)
            if number >= len(self.facts):
                self._hold(np.append(self.facts, np.zeros_like(self.facts), axis=0))
            facts, at = self._flat, 3 * number
            # Compiled walks read these facts, and cannot ask Python for them.
            depth = facts[3 * parent + TEXTS]
            if isinstance(frame, ObjectFrame):
                knowledge = _knowledge(frame)
                if knowledge == KNOWN:
                    self.with_keys.append(number)
                facts[at + KNOWLEDGE], facts[at + TAKEN] = knowledge, self._taken(frame)
            elif isinstance(frame, Pending):
                depth += frame.remembers
            if depth:
                facts[at + TEXTS] = depth
        return number

    def depth(self, number: int) -> int:
        """Return how many of the values being written have to be remembered."""
        return self._flat[3 * number + TEXTS]

    def taken(self, number: int) -> int:
        """Return the greatest number of an object's names that another member must not have.

        Those that the schema spells out always count.
        """
        return self._flat[3 * number + TAKEN]

    def free_keys(self, number: int) -> set[bytes]:
        """Return the names of an open object so far that the schema does not spell out."""
        frame = self.frames[number]
        assert isinstance(frame, ObjectFrame), frame
        return set(self.keys(frame.keys))

    def with_key(self, keys: int, key: bytes) -> int:
        """Return the set ``keys``, which is known, with one more key that is not in it.

        The same keys in another order make a set of another number.
        """
        number = self._key_numbers.setdefault((keys, key), len(self._key_sets))
        if number == len(self._key_sets):
            self._key_sets.append((keys, key))
            self._key_counts.append(self._key_counts[keys] + 1)
        return number

    def _taken(self, frame: ObjectFrame) -> int:
        """Return the greatest number of names that must not come again.

        If the free keys are unknown it is MANY_NAMES: only a row that leads to more names than
        that surely leads to one that is free.
        """
        if frame.keys == UNKNOWN_KEYS:
            return MANY_NAMES
        return self._key_counts[frame.keys] + self.order_sizes[frame.order]

    def keys(self, keys: int) -> Iterator[bytes]:
        """Yield the keys of a set, the latest first; none for an unknown set."""
        while keys not in (NO_KEYS, UNKNOWN_KEYS):
            keys, key = self._key_sets[keys]
            yield key


def _knowledge(frame: ObjectFrame) -> int:
    if frame.keys == NO_KEYS:
        return NONE
    return UNKNOWN if frame.keys == UNKNOWN_KEYS else KNOWN
