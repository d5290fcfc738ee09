"""What masks, forced runs and matchers ask of a machine that recognises texts byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from guided.machine.stack_transitions import StackTransitions
from guided.machine.table import TransitionTable

__all__ = ["Filling", "Recognizer", "StackTable", "State", "state_of"]


class State(NamedTuple):
    """A position in a text; equal states have equal continuations."""

    stack: int
    row: int
    count: int = 0  # type: ignore[assignment]  # hides a method of tuples that nobody needs
    """Code points so far of a string whose length is bounded, or characters of white space."""
    texts: tuple[bytes, ...] = ()
    """What is being written and has to be remembered: items that others must differ from, the
    outermost first, then a name that must not stand twice."""


_new: Final = tuple.__new__


def state_of(stack: int, row: int, count: int = 0, texts: tuple[bytes, ...] = ()) -> State:
    """The same as the class, in half of the time: for states of every token."""
    return _new(State, (stack, row, count, texts))


class StackTable(Protocol):
    """The stacks of a machine, numbered as they come up; what it says of each is an array."""

    facts: NDArray[np.int32]
    """What compiled code knows of each stack; see ``facts``."""
    with_keys: list[int]
    """The stacks that know the free keys that their object already has."""

    @property
    def frames(self) -> Sequence[object]:
        """What each stack stands for."""
        ...

    def __len__(self) -> int: ...

    def depth(self, number: int) -> int:
        """How many of the values being written have to be remembered."""
        ...

    def taken(self, number: int) -> int:
        """How many names are taken at most."""
        ...


class Recognizer(Protocol):
    """A machine whose states are a stack and a row of its table; see docs/architecture.md.

    It may grow with every question, and raises LimitExceededError where it would grow too large.
    """

    start: State
    table: TransitionTable
    transitions: StackTransitions

    @property
    def stacks(self) -> StackTable: ...

    def step(self, state: State, byte: int) -> State | None:
        """The state behind ``byte``, ``None`` where it is not allowed."""
        ...

    def advance(self, state: State, text: bytes) -> State | None:
        """The state behind all bytes of ``text``, ``None`` where one is not allowed."""
        ...

    def beneath(self, state: State, row: int) -> State:
        """The state in ``row``, which that of ``state`` lies over, in a stack where as much may
        follow from it.
        """
        ...

    def readings(self, state: State) -> tuple[State, ...]:
        """States that together may be gone on from as this one, if that takes less; often none."""
        ...

    def top(self, stack: int, depth: int) -> int:
        """The stack with only the innermost ``depth`` callers known, the same for many.

        What a walk is sure of in it is so in ``stack``, but for the end of the text.
        """
        ...

    def beyond(self, state: State) -> State:
        """The state behind the label of a row, in a stack that has a ``top`` of its own."""
        ...

    def is_complete(self, state: State) -> bool:
        """Whether the text is complete and nothing may follow."""
        ...

    def is_accepting(self, state: State) -> bool:
        """Whether the text may end here."""
        ...

    def only_byte(self, state: State) -> int | None:
        """The one byte that may follow, ``None`` where there is a choice or the text may end."""
        ...

    def free_keys_of(self, stack: int) -> set[bytes]:
        """The names of the innermost object that must not come again, so far."""
        ...

    def remember_transition(self, stack: int, label: int) -> None:
        """Enter what a label leads to in a stack into the table that walks read."""
        ...

    def bytes_left(self, state: State) -> int:
        """Upper bound on the length of ``shortest_end``."""
        ...

    def shortest_end(self, state: State) -> bytes:
        """Bytes that complete the text from here, close to as few as can be."""
        ...

    @property
    def incomplete(self) -> int:
        """Searches for a way to the end that were given up, so that texts may be missing."""
        ...

    @property
    def fullness(self) -> float:
        """The share of its limits that the machine has grown to."""
        ...

    def check_room(self) -> None:
        """Raise LimitExceededError when the rest of the limits is needed to end texts."""
        ...


class Filling(Recognizer, Protocol):
    """A machine that can fill a hole in the texts of another one, on whose table it is."""

    def transition(self, stack: int, label: int) -> tuple[int, int]:
        """The stack and the row that a label leads to; a row of DEAD where it must not be taken,
        or, in place of the stack, EXACT where that depends on what was written.
        """
        ...
