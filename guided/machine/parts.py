"""What a machine builds up while texts are read, and how close that is to its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from guided.errors import LimitExceededError
from guided.machine.stack_table import StackTable
from guided.machine.stack_transitions import EMPTY_SLOT, KEY, ROW, TARGET, StackTransitions
from guided.machine.table import TransitionTable

__all__ = ["MachineParts", "Pool", "RecognizerLimits"]

_ITEM_BYTES: Final = 1_000
"""About what a stack with its frame takes, and what is known about both."""
_MASK_SHARE: Final = 0.5
"""The share of a machine that masks may fill; the rest is kept for shortest completions."""


@dataclass(frozen=True, slots=True)
class RecognizerLimits:
    """Bounds on the memory of one machine, and on what a token does to it."""

    max_cells: int = 16_000_000
    """Cells of the transition table, four bytes each."""
    max_stacks: int = 200_000
    """Nests of open containers, some 300 bytes each."""
    max_string_start: int = 128
    """The most bytes that a token has of a JSON string which it begins after it ended another one:
    of ``","ab`` two. A mask is wrong where a token has more. The compiler knows the tokens and
    replaces the default."""


class Pool(NamedTuple):
    """Items of one kind that a machine makes and never drops, and their greatest number."""

    name: str
    items: Sized
    max_items: int


class MachineParts:
    """The table, the stacks and the transitions between stacks; all of them only grow.

    ``table`` may be shared by several machines; ``inner`` are the parts of machines that read
    inside this one. ``pools`` are what has a limit besides the table, including the stacks;
    ``hint`` says in errors how to need less. ``num_given_up`` counts searches that were
    given up or found only some, so that texts may be missing. ``extra_nbytes`` returns about how
    many bytes the machine holds outside these parts.
    """

    def __init__(
        self,
        table: TransitionTable,
        stacks: StackTable[Any],
        pools: Sequence[Pool],
        hint: str,
        inner: Sequence[MachineParts] = (),
        num_given_up: Callable[[], int] | None = None,
        extra_nbytes: Callable[[], int] | None = None,
    ) -> None:
        self.table: Final = table
        self.stacks: Final = stacks
        self.transitions: Final = StackTransitions()
        # Not final, so that a test can count how often room is checked.
        self._pools: tuple[Pool, ...] = tuple(pools)
        self._hint: Final = hint
        self._inner: Final = tuple(inner)
        self._num_given_up: Final = num_given_up
        self._extra_nbytes: Final = extra_nbytes

    @property
    def num_given_up(self) -> int:
        """The number of searches that were given up or found only some, so texts may be missing."""
        # Counted where the searches are, which not all machines have.
        own = 0 if self._num_given_up is None else self._num_given_up()
        return own + sum([parts.num_given_up for parts in self._inner])

    @property
    def nbytes(self) -> int:
        """About how many bytes all of it takes, with inner machines; a shared table counts once."""
        held = 0
        tables: list[TransitionTable] = []
        for parts in self._with_inner():
            held += parts._nbytes_beside_table()
            if not any(parts.table is table for table in tables):
                tables.append(parts.table)
        return held + sum([table.nbytes for table in tables])

    def _with_inner(self) -> list[MachineParts]:
        """These parts, and those of all machines inside."""
        found = [self]
        for parts in found:
            found += parts._inner
        return found

    def _nbytes_beside_table(self) -> int:
        items = _ITEM_BYTES * sum([len(pool.items) for pool in self._pools])
        extra = 0 if self._extra_nbytes is None else self._extra_nbytes()
        return items + self.transitions.slots.nbytes + self.stacks.facts.nbytes + extra

    @property
    def fullness(self) -> float:
        """The share used of whatever is closest to its limit, from 0 to 1, with inner machines."""
        fullest = self.table.num_cells / self.table.max_cells
        for pool in self._pools:
            fullest = max(fullest, len(pool.items) / pool.max_items)
        for parts in self._inner:
            fullest = max(fullest, parts.fullness)
        return fullest

    def check_room(self) -> None:
        """Raise LimitExceededError when half of the limits is used up.

        Limits of inner machines count, though the message does not mention them. Called where
        constraints are compiled and masks are made. Shortest completions do not call it: the other
        half is kept for them, so that a text that has begun can be ended.

        The limit in the error is that on cells, whichever was exceeded.
        """
        if self.fullness <= _MASK_SHARE:
            return
        sizes = [f"{self.table.num_cells} cells"]
        sizes += [f"{len(pool.items)} {pool.name}" for pool in self._pools]
        limits = [self.table.max_cells, *[pool.max_items for pool in self._pools]]
        raise LimitExceededError(
            f"the recogniser has {_join_words(sizes)}, and may have half of"
            f" {_join_words([*map(str, limits)])}",
            limit=self.table.max_cells,
            field="constraint",
            hint=self._hint,
        )

    def check(self) -> None:
        """Raise AssertionError unless table, stacks and transitions agree with each other."""
        self.table.check()
        slots = self.transitions.slots
        used = slots[slots[:, KEY] != EMPTY_SLOT]
        assert len(used) == len(self.transitions), (len(used), len(self.transitions))
        assert (used[:, TARGET] < len(self.stacks)).all()
        assert (used[:, ROW] < self.table.num_rows).all()


def _join_words(words: list[str]) -> str:
    """Join at least two words as in a sentence: "a, b and c"."""
    return f"{', '.join(words[:-1])} and {words[-1]}"
