"""Numbers sets of items: states of a network, each with the slot of its continuation."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.grammar.machine.set_kernels import (
    Explored,
    NetworkTables,
    SetTables,
    explore_sets,
    fill_hash_table,
    find_set,
)
from guided.grammar.network.network import Network
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend

__all__ = ["Item", "Items", "StateSets", "make_item"]

_MOST_AT_ONCE: Final = 128
"""The most sets that are explored at once, before a text reaches them."""
_USUAL_SETS: Final = 256
"""The number of sets for which there is room at first."""
_new: Final = tuple.__new__


class Item(NamedTuple):
    """A state of the network, and the slot of the stack that holds what follows its rule."""

    state: int
    slot: int


def make_item(state: int, slot: int) -> Item:
    """Construct an ``Item`` in half the time, for frequent use."""
    return _new(Item, (state, slot))


Items: TypeAlias = tuple[Item, ...]


class StateSets:
    """All sets that were explored, or found by exploring others; items are sorted and unique.

    ``has_calls``, bool ``[states]``, says which states call rules; ``follow`` has the FOLLOW sets,
    bool ``[rules, classes]``. Sets that are rows and not ``is_private`` are in a hash table, where
    ``find_row`` and bytes of other sets find them.
    """

    def __init__(
        self, network: Network, has_calls: NDArray[np.bool_], follow: NDArray[np.bool_]
    ) -> None:
        states = np.arange(len(network))
        rule_of = np.searchsorted(network.starts, states, side="right").astype(np.int32) - 1
        self._network = NetworkTables(
            *(network.moves, network.byte_class, network.accepting, has_calls),
            *(rule_of.astype(np.int32), follow),
        )
        self._count = 0
        self._set_arrays(
            np.empty((2 * _USUAL_SETS, 2), dtype=np.int32),
            np.zeros(_USUAL_SETS, dtype=np.int32),
            np.empty(4 * _USUAL_SETS, dtype=np.int32),
        )
        # Output of ``explore_sets``; a set has at most one line of edges for each class.
        self._byte_classes = np.empty((_MOST_AT_ONCE, 256), dtype=np.uint8)
        self._edges = np.empty((_MOST_AT_ONCE * network.moves.shape[1], 4), dtype=np.int32)
        self.rows: NDArray[np.int32] = np.full(_USUAL_SETS, DEAD, dtype=np.int32)
        """By set the row that bytes may lead to, DEAD for none; ``GrammarRows`` sets it when it has
        added the rows."""
        # Initialises the hash table.
        self.truncate(0)

    def __len__(self) -> int:
        return self._count

    def items(self, number: int) -> Items:
        """Return the items of a set."""
        items, first, _ = self._tables
        pairs = items[first[number] : first[number + 1]].tolist()
        return tuple([make_item(state, slot) for state, slot in pairs])

    def find_row(self, items: Items) -> int:
        """Return the row of a set that bytes may lead to, DEAD for none; adds no set."""
        begin, end = self._write_items(items)
        number = find_set(self._tables, begin, end)
        return DEAD if number == DEAD else int(self.rows[number])

    def explore(self, items: Items, *, is_private: bool) -> Explored:
        """Add a new set, and those that bytes lead to from it inside the same rules.

        With ``is_private`` the set is never found again: the text may end in its row, so bytes must
        not lead to it. All others that are rows are in the hash table afterwards, also if this
        raises LimitExceededError because the work for the constraint is used up. They are not in
        ``rows`` yet: the caller has to set that, or call ``truncate``. The next call overwrites
        ``byte_classes`` and ``edges`` of the result.
        """
        start = self._count
        while True:
            self._tables.first[start + 1] = self._write_items(items)[1]
            found: Explored = explore_sets(
                *(self._network, self._tables, start + 1, is_private),
                *(self._byte_classes, self._edges),
            )
            if found.num_sets != -1:
                break
            # Out of room: repeat the search with twice as much. ``_grow`` drops what was found.
            self._grow()
        first = self._tables.first
        spend(int(first[found.num_sets]) - int(first[start]))
        self._count = found.num_sets
        return found

    def truncate(self, count: int) -> None:
        """Remove all sets but the first ``count``; their numbers are reused."""
        self.rows[count:] = DEAD
        self._count = count
        fill_hash_table(self._tables, self.rows, count)

    def _write_items(self, items: Items) -> tuple[int, int]:
        """Write items after those of all sets; returns where they begin and end.

        They are no set yet: the next call overwrites them unless ``explore`` makes them a set.
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

    def _set_arrays(
        self, items: NDArray[np.int32], first: NDArray[np.int32], buckets: NDArray[np.int32]
    ) -> None:
        """Use these arrays; ``fill_hash_table`` has to fill ``buckets`` afterwards.

        ``buckets`` must be four times as long as ``first``, and a power of two, see
        ``set_kernels._find_bucket``.
        """
        self._tables = SetTables(items, first, buckets)
        self._flat = items.reshape(-1).data
        """``items`` as a memory view, which is faster than numpy for single numbers."""

    def _grow(self) -> None:
        """Double all arrays, and refill the hash table with the first ``_count`` sets.

        Sets that ``explore`` has found after them are lost.
        """
        items, first, buckets = self._tables
        self._set_arrays(
            np.concatenate([items, np.empty_like(items)]),
            np.concatenate([first, np.zeros_like(first)]),
            np.empty(2 * len(buckets), dtype=np.int32),
        )
        self.rows = np.concatenate([self.rows, np.full_like(self.rows, DEAD)])
        fill_hash_table(self._tables, self.rows, self._count)
