"""Sets of states of a network, each with the slot that its rule was called in, numbered."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.grammar.machine.set_kernels import (
    Explored,
    NetworkTables,
    SetTables,
    enter_sets,
    explore_sets,
    find_set,
)
from guided.grammar.network.network import Network
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["FoundSets", "Item", "Items", "StateSets", "item_of"]

_MOST_AT_ONCE: Final = 128
"""Sets that are laid down before a text reaches them."""
_USUAL_SETS: Final = 256
"""Sets for which there is room at first."""
_new: Final = tuple.__new__


class Item(NamedTuple):
    """A state of the network, and the slot of the stack that holds what follows its rule."""

    state: int
    slot: int


def item_of(state: int, slot: int) -> Item:
    """Construct an ``Item`` in half the time: transitions make one for each of their items."""
    return _new(Item, (state, slot))


Items: TypeAlias = tuple[Item, ...]


class FoundSets(NamedTuple):
    """Sets that bytes lead to from the first of them, up to the last existing set."""

    begin: int
    """The number of the first of them; the others follow it."""
    rows: list[bool]
    """Whether each is a row; calls begin in the others, states came together, or there was no room
    for more rows."""
    byte_classes: NDArray[np.uint8]
    edges: NDArray[np.int32]
    """Both as ``TransitionTable.add_sets`` takes them, for the sets that are rows. They are parts
    of arrays that the next call of ``explored`` overwrites."""
    ends_like: list[int]
    """By row, one whose set ends rules of the same slots, -1 if no rule ends in it."""
    pairs: list[list[int]]
    """Rules and slots of the single states that bytes lead to; lines of ``edges`` that are TO_STATE
    have places in it."""
    sides: NDArray[np.int32]
    """Sets and bytes that may also belong to what follows the set, int32 ``[sides, 2]``."""


class StateSets:
    """All sets that were requested or found.

    ``calling``, bool ``[states]``, says where calls begin, and ``follow``, bool ``[rules,
    classes]``, which bytes may come after each rule.

    Items of a set are sorted and unique. ``items`` and ``explored`` know all sets that are kept;
    ``row`` and bytes find only those that are entered into the hash table: sets that are rows, and
    not ``is_lone``.
    """

    def __init__(
        self, network: Network, calling: NDArray[np.bool_], follow: NDArray[np.bool_]
    ) -> None:
        states = np.arange(len(network))
        rule_of = np.searchsorted(network.starts, states, side="right").astype(np.int32) - 1
        self._network = NetworkTables(
            *(network.moves, network.byte_class, network.accepting, calling),
            *(rule_of.astype(np.int32), follow),
        )
        self._count = 0
        self._hold(
            np.empty((2 * _USUAL_SETS, 2), dtype=np.int32),
            np.zeros(_USUAL_SETS, dtype=np.int32),
            np.empty(4 * _USUAL_SETS, dtype=np.int32),
        )
        # What ``explore_sets`` writes into; a set has at most one line of edges for each class.
        self._byte_classes = np.empty((_MOST_AT_ONCE, 256), dtype=np.uint8)
        self._edges = np.empty((_MOST_AT_ONCE * network.moves.shape[1], 4), dtype=np.int32)
        self.rows: NDArray[np.int32] = np.full(_USUAL_SETS, DEAD, dtype=np.int32)
        """By set the row that bytes may lead to, DEAD for none. ``GrammarRows`` enters them when
        it has laid the sets down."""
        # Nothing is forgotten yet: this empties the hash table, which was allocated uninitialised.
        self.forget(0)

    def __len__(self) -> int:
        return self._count

    def items(self, number: int) -> Items:
        """Return the items of a set."""
        items, first, _ = self._tables
        pairs = items[first[number] : first[number + 1]].tolist()
        return tuple([item_of(state, slot) for state, slot in pairs])

    def row(self, items: Items) -> int:
        """Return the row of a set that bytes may lead to, DEAD for none; this numbers no set."""
        begin, end = self._written(items)
        number = find_set(self._tables, begin, end)
        return DEAD if number == DEAD else int(self.rows[number])

    def explored(self, items: Items, *, is_lone: bool) -> FoundSets:
        """Number a new set, and those that bytes lead to from it inside the same rules.

        With ``is_lone`` the set is never found again: its row is for a place where the text may
        end, and bytes must not lead to that. The others that are rows are in the hash table when
        this returns, or raises LimitExceededError because the work for the constraint is used up;
        but ``rows`` does not have them yet: the caller enters them there, or calls ``forget``.
        """
        begun = self._count
        while True:
            self._tables.first[begun + 1] = self._written(items)[1]
            found: Explored = explore_sets(
                *(self._network, self._tables, begun + 1, is_lone),
                *(self._byte_classes, self._edges),
            )
            if found.num_sets != -1:
                break
            # ``_grow`` drops what was entered into the hash table, so nothing found is kept: the
            # search is repeated with twice the room.
            self._grow()
        first = self._tables.first
        spend(int(first[found.num_sets]) - int(first[begun]))
        self._count = found.num_sets
        rows: list[bool] = found.is_row.tolist()
        return FoundSets(
            *(begun, rows, self._byte_classes[: len(found.ends_like)]),
            *(self._edges[: found.num_edges], found.ends_like.tolist()),
            *(found.pairs.tolist(), found.sides),
        )

    def forget(self, count: int) -> None:
        """Drop all sets but the first ``count``; their numbers are used again."""
        self.rows[count:] = DEAD
        self._count = count
        enter_sets(self._tables, self.rows, count)

    def _written(self, items: Items) -> tuple[int, int]:
        """Write items after those of all sets, and return where they begin and end.

        They are no set yet, and the next call overwrites them: ``explored`` makes a set of them,
        ``row`` only compares them with others.
        """
        begin = int(self._tables.first[self._count])
        end = begin + len(items)
        while self._count + 2 > len(self._tables.first) or end > len(self._tables.items):
            self._grow()
        at = 2 * begin
        for state, slot in items:
            self._flat[at], self._flat[at + 1] = state, slot
            at += 2
        return begin, end

    def _hold(
        self, items: NDArray[np.int32], first: NDArray[np.int32], buckets: NDArray[np.int32]
    ) -> None:
        """Use these arrays; ``enter_sets`` has to fill ``buckets`` afterwards.

        The length of ``buckets`` must be a power of two, and four for each set that ``first`` has
        room for, see ``set_kernels._bucket``.
        """
        self._tables = SetTables(items, first, buckets)
        self._flat = items.reshape(-1).data
        """Where Python writes single numbers, many times as fast as with numpy."""

    def _grow(self) -> None:
        """Double all arrays; places in the hash table depend on its size, so it is refilled.

        Only with the first ``_count`` sets: what ``explored`` had entered after them drops out.
        """
        items, first, buckets = self._tables
        self._hold(
            np.concatenate([items, np.empty_like(items)]),
            np.concatenate([first, np.zeros_like(first)]),
            np.empty(2 * len(buckets), dtype=np.int32),
        )
        self.rows = np.concatenate([self.rows, np.full_like(self.rows, DEAD)])
        enter_sets(self._tables, self.rows, self._count)
