"""Automata that call each other: recursive transition networks (Woods, CACM 13(10), 1970)."""

from __future__ import annotations

import heapq
import itertools
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.automata.dfa import DEAD

__all__ = ["CallEdge", "HoleText", "Network", "Way"]


class CallEdge(NamedTuple):
    """A call that may be made in a state, and the state behind it."""

    rule: int
    target: int


class HoleText(NamedTuple):
    """What is known of the texts that fill a hole."""

    first: frozenset[int]
    """The bytes that they begin with."""
    shortest: int
    """Bytes of the shortest one."""


class Way(NamedTuple):
    """The first move of a shortest way to the end of a rule: a byte, or the call of a rule."""

    byte: int | None
    rule: int | None
    target: int


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """States of all rules numbered through; a text is one of rule 0.

    Every rule's text has at least a byte, no rule calls itself before it read one, and from every
    state an end can be reached.
    """

    starts: tuple[int, ...]
    """The first state of each rule; its states go up to the next rule's."""
    moves: NDArray[np.int32]
    """int32 ``[states, 256]``: where bytes lead, DEAD for nowhere."""
    calls: tuple[tuple[CallEdge, ...], ...]
    """By state."""
    accepting: NDArray[np.bool_]
    """bool ``[states]``: whether a rule's text may end here."""
    left: tuple[int, ...]
    """Bytes from each state to the end of its rule, at least."""
    ways: tuple[Way | None, ...]
    """The first move of that way, ``None`` where a rule may end."""
    accepts_nothing: bool
    """Whether the empty text is one, too."""
    holes: tuple[HoleText, ...] = ()
    """The last rules, of one state each: their texts are for other recognisers to read."""

    @property
    def first_hole(self) -> int:
        """The first of the states that stand for holes."""
        return len(self) - len(self.holes)

    def __len__(self) -> int:
        return len(self.accepting)

    def rule_of(self, state: int) -> int:
        """The rule that a state belongs to."""
        return int(np.searchsorted(self.starts, state, side="right")) - 1

    def check(self) -> None:
        """Raise AssertionError unless the network is as it says."""
        for start in self.starts:
            assert not self.accepting[start], start
        rules = zip(self.left[: self.first_hole], self.ways, strict=False)
        for state, (left, way) in enumerate(rules):
            assert (left == 0) == bool(self.accepting[state]) == (way is None), state
            if way is not None and way.byte is not None:
                assert self.moves[state, way.byte] == way.target, state
                assert left == 1 + self.left[way.target], state
            elif way is not None and way.rule is not None:
                assert CallEdge(way.rule, way.target) in self.calls[state], state
                assert left == self.left[self.starts[way.rule]] + self.left[way.target], state


def shortest_ways(
    starts: Sequence[int],
    moves: NDArray[np.int32],
    calls: Sequence[Sequence[CallEdge]],
    accepting: NDArray[np.bool_],
    known: Mapping[int, int],
) -> tuple[tuple[int, ...], tuple[Way | None, ...]]:
    """``left`` and ``ways`` of a network (Knuth, Information Processing Letters 6(1), 1977).

    ``known`` tells by state what is left of holes.
    """
    count = len(accepting)
    into: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for source, byte in _first_bytes(moves):
        into[int(moves[source, byte])].append((source, byte))
    called_before: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    called_in: list[list[tuple[int, int]]] = [[] for _ in starts]
    for source, edges in enumerate(calls):
        for rule, target in edges:
            called_before[target].append((source, rule))
            called_in[rule].append((source, target))
    rule_at = {start: rule for rule, start in enumerate(starts)}
    left: list[int | None] = [None] * count
    ways: list[Way | None] = [None] * count
    ties = itertools.count()
    heap: list[tuple[int, int, int, Way | None]] = [
        (0, next(ties), state, None) for state in np.nonzero(accepting)[0].tolist()
    ]
    heap += ((cost, next(ties), state, None) for state, cost in known.items())
    heapq.heapify(heap)
    while heap:
        cost, _, state, way = heapq.heappop(heap)
        if left[state] is not None:
            continue
        left[state], ways[state] = cost, way
        for source, byte in into[state]:
            if left[source] is None:
                heapq.heappush(heap, (cost + 1, next(ties), source, Way(byte, None, state)))
        for source, rule in called_before[state]:
            inside = left[starts[rule]]
            if left[source] is None and inside is not None:
                way = Way(None, rule, state)
                heapq.heappush(heap, (cost + inside, next(ties), source, way))
        rule = rule_at.get(state, DEAD)
        for source, target in called_in[rule] if rule != DEAD else ():
            behind = left[target]
            if left[source] is None and behind is not None:
                way = Way(None, rule, target)
                heapq.heappush(heap, (cost + behind, next(ties), source, way))
    assert None not in left, "a state leads to no end"
    return tuple(cost for cost in left if cost is not None), tuple(ways)


def _first_bytes(moves: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Each source with one byte for each of its targets, one that is good to read if there is."""
    found: list[tuple[int, int]] = []
    for source, row in enumerate(moves[:, _READABLE]):
        targets, places = np.unique(row, return_index=True)
        found += (
            (source, byte)
            for target, byte in zip(targets.tolist(), _READABLE[places].tolist(), strict=True)
            if target != DEAD
        )
    return found


_ALPHANUMERIC = (string.digits + string.ascii_letters).encode()
_READABLE = np.array(
    sorted(range(256), key=lambda byte: (byte not in _ALPHANUMERIC, not 32 <= byte < 127, byte))
)
"""All bytes, in the order in which a way out prefers them."""
