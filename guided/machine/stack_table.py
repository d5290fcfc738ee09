"""The stacks of a machine, numbered as they come up, with an array of facts about each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.machine.facts import NAMES_TAKEN, NUM_TEXTS, WIDTH

__all__ = ["StackTable"]

_Frame = TypeVar("_Frame")


class StackTable(Generic[_Frame]):
    """Numbers stacks.

    It only grows: a number keeps its meaning, so caches and compiled code may store it. This class
    knows of no names and texts to remember: all facts are 0.
    """

    def __init__(self, frames: Iterable[_Frame]) -> None:
        self.frames: list[_Frame] = list(frames)
        """What each stack stands for. No stack is ever dropped."""
        self.with_keys: list[int] = []
        """The stacks whose KNOWLEDGE is KNOWN: the additional names that their object has."""
        self._set_facts(np.zeros((256, WIDTH), dtype=np.int32))

    def _set_facts(self, facts: NDArray[np.int32]) -> None:
        """Set ``facts`` and its view ``_flat``, which share their memory.

        Called again when the array is full: compiled code has to read ``facts`` again once a stack
        was added.
        """
        self.facts = facts
        """int32 ``[room, WIDTH]``: what compiled code knows about each stack; see ``facts``.

        A line is written when its stack is added, and never again but by ``PackedMachine``, which
        makes KNOWN HARMLESS: so copies of lines of another machine stay right."""
        self._flat = facts.reshape(-1).data
        """Where Python reads and writes single facts, many times as fast as with numpy."""

    def __len__(self) -> int:
        return len(self.frames)

    def append(self, frame: _Frame) -> None:
        """Add a stack, with room for its facts."""
        self.frames.append(frame)
        if len(self.frames) > len(self.facts):
            self._set_facts(np.append(self.facts, np.zeros_like(self.facts), axis=0))

    def num_texts(self, stack: int) -> int:
        """Return how many texts (``State.texts``) have to be remembered, without a name."""
        return self._flat[WIDTH * stack + NUM_TEXTS]

    def max_names_taken(self, stack: int) -> int:
        """Return an upper bound on the names that the innermost object may already have.

        It counts the additional names so far, and all names that the schema spells out.
        """
        return self._flat[WIDTH * stack + NAMES_TAKEN]

    def additional_names(self, stack: int) -> set[bytes]:  # noqa: ARG002 - no stack has any
        """Return the names of the innermost object so far that must not come again."""
        return set()
