"""Sets of states of a network, each with the slot that its rule was called in, numbered."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.automata.dfa import DEAD
from guided.automata.fuel import spend
from guided.network.network import Network
from guided.recognizer.set_kernels import enter_sets, follow_sets

__all__ = ["FoundSets", "Item", "Items", "StateSets"]

_MOST_AT_ONCE: Final = 128
"""Sets that are laid down before a text gets to them."""


class Item(NamedTuple):
    """A state of the network, and the slot of the context that holds what follows its rule."""

    state: int
    slot: int


Items: TypeAlias = tuple[Item, ...]


class FoundSets(NamedTuple):
    """Sets that bytes lead to from the first of them, up to the last that there is."""

    begin: int
    rows: list[bool]
    """Whether each is a row as it is; calls begin in the others, or states came together."""
    byte_classes: NDArray[np.uint8]
    edges: NDArray[np.int32]
    """Both as ``TransitionTable.add_sets`` takes them, of the sets that are rows; until more sets
    are followed."""
    pairs: list[list[int]]
    """Rules and slots of the single states that bytes lead to."""

    def is_row(self, number: int) -> bool:
        """Whether a set is a row as it is."""
        return self.rows[number - self.begin]


class StateSets:
    """All sets that were asked for or found; ``behind`` is what may come behind each rule."""

    def __init__(
        self, network: Network, calling: NDArray[np.bool_], behind: NDArray[np.bool_]
    ) -> None:
        states = np.arange(len(network))
        rule_of = np.searchsorted(network.starts, states, side="right").astype(np.int32) - 1
        self._network = (
            *(network.moves, network.byte_class, network.accepting, calling),
            *(rule_of.astype(np.int32), behind),
        )
        self._count = 0
        self._items = np.empty((64, 2), dtype=np.int32)
        self._first = np.zeros(16, dtype=np.int32)
        self._slots = np.empty(64, dtype=np.int32)
        classes = min(256, 2 * network.moves.shape[1])
        self._byte_classes = np.empty((_MOST_AT_ONCE, 256), dtype=np.uint8)
        self._edges = np.empty((_MOST_AT_ONCE * classes, 4), dtype=np.int32)
        self.rows: NDArray[np.int32] = np.full(16, DEAD, dtype=np.int32)
        """By set the row that bytes may lead to, DEAD for none."""
        self.forget(0)

    def __len__(self) -> int:
        return self._count

    def items(self, begin: int) -> list[Items]:
        """The items of each set from one on."""
        first: list[int] = self._first[begin : self._count + 1].tolist()
        pairs = self._items[first[0] : first[-1]].tolist()
        items = [Item(state, slot) for state, slot in pairs]
        bounds = [each - first[0] for each in first]
        return [tuple(items[at:to]) for at, to in pairwise(bounds)]

    def followed(self, items: Items, *, is_lone: bool) -> FoundSets:
        """Number a new set, and those that bytes lead to from it inside of the same rules.

        With ``is_lone`` no byte leads to it.
        """
        begun, count = self._count, -1
        while count == -1:
            self._make_room(len(items))
            begin = int(self._first[begun])
            self._items[begin : begin + len(items)] = items or np.empty((0, 2))
            self._first[begun + 1] = begin + len(items)
            count, is_row, num_edges, pairs = follow_sets(
                *self._network,
                *(self._items, self._first, self._slots, begun + 1, is_lone),
                *(self._byte_classes, self._edges),
            )
            if count == -1:
                self._grow()
        spend(int(self._first[count]) - int(self._first[begun]))
        self._count = count
        rows: list[bool] = is_row.tolist()
        byte_classes = self._byte_classes[: sum(rows)]
        return FoundSets(begun, rows, byte_classes, self._edges[:num_edges], pairs.tolist())

    def forget(self, count: int) -> None:
        """Let all sets but the first ones go."""
        self.rows[count:] = DEAD
        self._count = count
        enter_sets(self._slots, self._items, self._first, self.rows, count)

    def _make_room(self, size: int) -> None:
        """Room for one set more."""
        needed = int(self._first[self._count]) + size
        while self._count + 2 > len(self._first) or needed > len(self._items):
            self._grow()

    def _grow(self) -> None:
        self._items = np.concatenate([self._items, np.empty_like(self._items)])
        self._first = np.concatenate([self._first, np.zeros_like(self._first)])
        self.rows = np.concatenate([self.rows, np.full_like(self.rows, DEAD)])
        self._slots = np.full(2 * len(self._slots), DEAD, dtype=np.int32)
        enter_sets(self._slots, self._items, self._first, self.rows, self._count)
