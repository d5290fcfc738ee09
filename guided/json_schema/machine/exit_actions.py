"""Exit actions: what the end of a block does to the stack, numbered when first needed."""

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
"""A value is complete and as it had to be, a container closes, an item follows, one opens."""


@dataclass(frozen=True, slots=True)
class Done:
    """A value is complete; ``truth`` says which of the formulas asked of it hold."""

    truth: int


@dataclass(frozen=True, slots=True)
class EmptyArray:
    """An array closes before its first item, with this truth vector of the array."""

    truth: int


@dataclass(frozen=True, slots=True)
class Key:
    """The name of a member was written, and its colon."""

    name: str


@dataclass(frozen=True, slots=True)
class KeyClass:
    """A name that the schema does not spell out was written, one of this class of names."""

    number: int


class ExitActions:
    """Numbers exit actions, so that a state of the table can hold one.

    DONE to OPEN_ARRAY are the first five, in this order. Rows of the table and stack transitions
    hold these numbers, so a number never changes its meaning; each machine numbers its own.
    """

    def __init__(self) -> None:
        self._meanings: list[Hashable] = [Done(1), "close", "item", "object", "array"]
        self._numbers: dict[Hashable, int] = {m: i for i, m in enumerate(self._meanings)}
        self._of_keys: dict[str, int] = {}

    def number(self, meaning: Done | EmptyArray | Key | KeyClass) -> int:
        """Return the action that has this meaning.

        A new meaning gets the next number; equal meanings share one.
        """
        number = self._numbers.setdefault(meaning, len(self._meanings))
        if number == len(self._meanings):
            self._meanings.append(meaning)
        return number

    def of_key(self, name: str) -> int:
        """Return the action of a name that the schema spells out."""
        number = self._of_keys.get(name)
        if number is None:
            number = self._of_keys[name] = self.number(Key(name))
        return number

    def meaning(self, action: int) -> Hashable:
        """Return what an action means."""
        return self._meanings[action]
