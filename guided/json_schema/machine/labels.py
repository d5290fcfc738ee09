"""Labels: what the end of a block means to the stack around it, numbered as they are needed."""

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
    "EmptyArray",
    "Judged",
    "Key",
    "KeyClass",
    "Labels",
]

DONE: Final = 0
CLOSE: Final = 1
ITEM: Final = 2
OPEN_OBJECT: Final = 3
OPEN_ARRAY: Final = 4
"""A value is complete and as it had to be, a container closes, an item follows, one opens."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A value is complete; bit ``i`` tells whether it fits the ``i``-th formula asked of it."""

    verdict: int


@dataclass(frozen=True, slots=True)
class EmptyArray:
    """An array closes before its first item, with this verdict on the array."""

    verdict: int


@dataclass(frozen=True, slots=True)
class Key:
    """The name of a member was written, and its colon."""

    name: str


@dataclass(frozen=True, slots=True)
class KeyClass:
    """A name was written that the schema does not spell out, one of this class of names."""

    number: int


class Labels:
    """Numbers labels."""

    def __init__(self) -> None:
        self._meanings: list[Hashable] = [Judged(1), "close", "item", "object", "array"]
        self._numbers: dict[Hashable, int] = {m: i for i, m in enumerate(self._meanings)}
        self._of_keys: dict[str, int] = {}

    def number(self, meaning: Judged | EmptyArray | Key | KeyClass) -> int:
        """The label that has this meaning."""
        number = self._numbers.setdefault(meaning, len(self._meanings))
        if number == len(self._meanings):
            self._meanings.append(meaning)
        return number

    def of_key(self, name: str) -> int:
        """The label of a name that the schema spells out."""
        number = self._of_keys.get(name)
        if number is None:
            number = self._of_keys[name] = self.number(Key(name))
        return number

    def meaning(self, label: int) -> Hashable:
        """What a label means."""
        return self._meanings[label]
