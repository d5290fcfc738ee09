"""Exit actions: how the end of an automaton changes the stack, each interned as an int."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

__all__ = [
    "CLOSE",
    "DONE",
    "ITEM",
    "OPEN_ARRAY",
    "OPEN_OBJECT",
    "Done",
    "EmptyArray",
    "ExitActions",
    "Key",
    "KeyClass",
]

DONE: Final = 0
CLOSE: Final = 1
ITEM: Final = 2
OPEN_OBJECT: Final = 3
OPEN_ARRAY: Final = 4
"""A value that fits its only formula is complete; a container closes; an item follows; an object or
an array opens. They are at most ``LAST_UNCONDITIONAL``: where a token ends, walks take them to be
allowed, so a row may lead to one only in stacks where it may be taken."""


@dataclass(frozen=True, slots=True)
class Done:
    """A value with this truth vector is complete."""

    truth_vector: int
    is_string: bool = False
    """Whether it is a string, where other scalars may stand too and later items have to differ."""


@dataclass(frozen=True, slots=True)
class EmptyArray:
    """An array with this truth vector closes before its first item."""

    truth_vector: int


@dataclass(frozen=True, slots=True)
class Key:
    """A name that the schema spells out was written, with its closing quote."""

    name: str


@dataclass(frozen=True, slots=True)
class KeyClass:
    """An additional name of this class was written, with its closing quote."""

    class_id: int
    """The index in ``NameSpace.classes``."""


class ExitActions:
    """Interns exit actions as ints, so that a row of the table can hold one.

    DONE to OPEN_ARRAY are the first five, in this order. Rows of the table and stack transitions
    hold these ints, so one never changes its meaning; each machine has its own.
    """

    def __init__(self) -> None:
        self._meanings: list[Hashable] = [Done(1), "close", "item", "object", "array"]
        """By action. Those of CLOSE to OPEN_ARRAY only hold their places."""
        self._action_by_meaning: dict[Hashable, int] = {m: i for i, m in enumerate(self._meanings)}
        """The inverse of ``_meanings``."""

    def action_of(self, meaning: Done | EmptyArray | Key | KeyClass) -> int:
        """Return the action that has this meaning.

        A new meaning gets the next free int; equal meanings share one.
        """
        action = self._action_by_meaning.setdefault(meaning, len(self._meanings))
        if action == len(self._meanings):
            self._meanings.append(meaning)
        return action

    def action_of_key(self, name: str) -> int:
        """Return the action that says that this name was written."""
        return self.action_of(Key(name))

    def meaning(self, action: int) -> Hashable:
        """Return what an action means."""
        return self._meanings[action]
