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

from guided.grammar.network.network_kernels import LONGEST
from guided.regular.dfa import DEAD

__all__ = ["CallEdge", "HoleText", "Network", "Way"]

_STATE_BYTES: Final = 100
"""About how many bytes plain lists take per state, here and in a machine."""


class CallEdge(NamedTuple):
    """A call that may be made in a state, and the state after it."""

    rule: int
    target: int


class HoleText(NamedTuple):
    """What is known about the texts that fill a hole."""

    first: frozenset[int]
    """The bytes that they begin with."""
    shortest: int
    """The number of bytes of the shortest one."""


class Way(NamedTuple):
    """The first move of a shortest way to the end of a rule: a byte, or the call of a rule.

    One of ``byte`` and ``rule`` is ``None``; ``target`` is the state after it in the same rule.
    """

    byte: int | None
    rule: int | None
    target: int


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """States of all rules numbered consecutively; a text is one of rule 0.

    Every rule's text has at least one byte, no rule calls itself before it has read one, and an end
    is reachable from every state. Its arrays must not be changed: machines never drop what they
    compute from them.
    """

    starts: tuple[int, ...]
    """The first state of each rule; its states go up to the next rule's."""
    byte_class: NDArray[np.uint8]
    """uint8 ``[256]``: bytes of one class lead to the same states, wherever they are read. Those
    that holes begin with are separate classes."""
    moves: NDArray[np.int32]
    """int32 ``[states, classes]``: where the bytes of a class lead, DEAD for nowhere."""
    own_classes: NDArray[np.int32]
    """int32 ``[rules, classes]``: classes with the same number lead to the same states of a rule;
    DEAD leads nowhere."""
    calls: tuple[tuple[CallEdge, ...], ...]
    """By state."""
    accepting: NDArray[np.bool_]
    """bool ``[states]``: whether a rule's text may end here."""
    left: tuple[int, ...]
    """The least number of bytes from each state to the end of its rule."""
    ways: NDArray[np.int32]
    """int32 ``[states, 3]``: the first move of that way as byte, rule and target, see ``way``."""
    accepts_nothing: bool
    """Whether the empty text is also a text."""
    holes: tuple[HoleText, ...] = ()
    """The last rules, of one state each: other recognisers read their texts."""

    @property
    def first_hole(self) -> int:
        """The first of the states that stand for holes."""
        return len(self) - len(self.holes)

    def __len__(self) -> int:
        return len(self.accepting)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, with what a machine keeps per state besides rows."""
        arrays = self.moves, self.ways, self.own_classes
        return _STATE_BYTES * len(self) + sum([array.nbytes for array in arrays])

    def step(self, state: int, byte: int) -> int:
        """Return the state of the same rule after a byte, or DEAD."""
        return int(self.moves[state, self.byte_class[byte]])

    def rule_of(self, state: int) -> int:
        """Return the rule that a state belongs to."""
        return bisect_right(self.starts, state) - 1

    def way(self, state: int) -> Way | None:
        """Return the first move of a shortest way to the end of the rule.

        ``None`` if the rule may end, and in states that stand for holes.
        """
        byte, rule, target = self.ways[state].tolist()
        if target == DEAD:
            return None
        return Way(None if byte == DEAD else byte, None if rule == DEAD else rule, target)

    def check(self) -> None:
        """Raise AssertionError unless classes, moves and shortest ways agree, outside holes."""
        for start in self.starts:
            assert not self.accepting[start], start
        ends = (*self.starts[1:], len(self))
        for rule, (own, end) in enumerate(zip(self.own_classes, ends, strict=False)):
            _, firsts, place = np.unique(own, return_index=True, return_inverse=True)
            moves = self.moves[self.starts[rule] : end]
            assert (moves == moves[:, firsts[place]]).all(), rule
            assert (moves[:, own == DEAD] == DEAD).all(), rule
        for state, left in enumerate(self.left[: self.first_hole]):
            way = self.way(state)
            assert (left == 0) == bool(self.accepting[state]) == (way is None), state
            if way is not None and way.byte is not None:
                assert self.step(state, way.byte) == way.target, state
                assert left == min(1 + self.left[way.target], LONGEST), state
            elif way is not None and way.rule is not None:
                assert CallEdge(way.rule, way.target) in self.calls[state], state
                through = self.left[self.starts[way.rule]] + self.left[way.target]
                assert left == min(through, LONGEST), state
