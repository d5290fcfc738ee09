"""Automata that call each other: recursive transition networks (Woods, CACM 13(10), 1970).

::

    sum: NUMBER | "(" sum ")"      rule 0   0 --[0-9]--> 1 (end)    1 --[0-9]--> 1
                                            0 --"("----> 2 --call 0--> 3 --")"--> 4 (end)
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.grammar.network.network_kernels import MAX_DISTANCE
from guided.regular.dfa import DEAD

__all__ = ["CallEdge", "HoleText", "Network"]

_STATE_BYTES: Final = 100
"""Approximate bytes that Python lists take per state, here and in a machine."""


class CallEdge(NamedTuple):
    """A call of a rule in some state, and the state that it returns to."""

    rule: int
    target: int


class HoleText(NamedTuple):
    """What a network knows about the texts that fill a hole."""

    first: frozenset[int]
    """The bytes that they may begin with, at least one."""
    shortest: int
    """The length in bytes of the completion from the start of the hole: at least 1, and that of the
    shortest text or not much more."""


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """The states of all rules, numbered consecutively; the language is that of rule 0.

    No rule has the empty text or is left-recursive, and an accepting state is reachable from every
    state. The arrays must not be changed: machines cache what they compute from them.
    """

    starts: tuple[int, ...]
    """The first state of each rule; its states are those before the next rule's. Empty if there is
    no text but the empty one."""
    byte_class: NDArray[np.uint8]
    """uint8 ``[256]``: bytes of one class lead to the same states everywhere. Each byte that holes
    may begin with is a class of its own."""
    moves: NDArray[np.int32]
    """int32 ``[states, classes]``: where the bytes of a class lead, DEAD for nowhere."""
    rule_classes: NDArray[np.int32]
    """int32 ``[rules, classes]``: classes with one number lead to the same states in a rule; DEAD
    for those that lead nowhere."""
    calls: tuple[tuple[CallEdge, ...], ...]
    """The calls that may be made, by state."""
    accepting: NDArray[np.bool_]
    """bool ``[states]``: whether the rule may end in the state."""
    distance: tuple[int, ...]
    """By state the least number of bytes to the end of its rule, at most MAX_DISTANCE; a hole
    counts as ``HoleText.shortest``."""
    shortest_moves: NDArray[np.int32]
    """int32 ``[states, 3]``: by state the first move of a shortest path to the end of its rule: a
    byte or a called rule, and the state after it in the same rule; DEAD for what does not apply."""
    accepts_empty: bool
    """Whether the language also has the empty text."""
    holes: tuple[HoleText, ...] = ()
    """The holes: the last rules, with one state each; other recognisers read their texts."""

    @property
    def first_hole(self) -> int:
        """The first of the states that stand for holes."""
        return len(self) - len(self.holes)

    def __len__(self) -> int:
        return len(self.accepting)

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, with what a machine keeps per state besides rows."""
        arrays = self.moves, self.shortest_moves, self.rule_classes
        return _STATE_BYTES * len(self) + sum([array.nbytes for array in arrays])

    def step(self, state: int, byte: int) -> int:
        """Return the state of the same rule after a byte, or DEAD."""
        return int(self.moves[state, self.byte_class[byte]])

    def rule_of(self, state: int) -> int:
        """Return the rule that a state belongs to."""
        return bisect_right(self.starts, state) - 1

    def check(self) -> None:
        """Raise AssertionError unless classes, moves and shortest paths are consistent."""
        for start in self.starts:
            assert not self.accepting[start], start
        ends = (*self.starts[1:], len(self))
        for rule, (own, end) in enumerate(zip(self.rule_classes, ends, strict=False)):
            _, firsts, place = np.unique(own, return_index=True, return_inverse=True)
            moves = self.moves[self.starts[rule] : end]
            assert (moves == moves[:, firsts[place]]).all(), rule
            assert (moves[:, own == DEAD] == DEAD).all(), rule
        for state, distance in enumerate(self.distance[: self.first_hole]):
            byte, rule, target = self.shortest_moves[state].tolist()
            assert (distance == 0) == bool(self.accepting[state]) == (target == DEAD), state
            if byte != DEAD:
                assert self.step(state, byte) == target, state
                assert distance == min(1 + self.distance[target], MAX_DISTANCE), state
            elif rule != DEAD:
                assert CallEdge(rule, target) in self.calls[state], state
                through = self.distance[self.starts[rule]] + self.distance[target]
                assert distance == min(through, MAX_DISTANCE), state
