"""Automata over bytes, with what a recogniser has to know about each state, computed once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block_kernels import block_ways
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from guided.regular.reachability import STOP
from guided.runtime.fuel import without_gil

__all__ = [
    "CLOSE_STRING",
    "CODE_POINT_END",
    "INSIDE",
    "NO_EVENT",
    "START",
    "STOP",
    "Block",
    "block_of",
]

NO_EVENT: Final = 0
START: Final = 1
INSIDE: Final = 2
CODE_POINT_END: Final = 3
CLOSE_STRING: Final = 4
"""What entering a state means to the count of code points: nothing, it begins, it stays, one more
is complete, it ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An automaton ready to be laid down as rows of a transition table.

    All arrays have one entry per state. ``left`` int64 is the number of bytes to the nearest state
    with a label, ``way`` int16 the first of them or STOP, ``aim`` int32 that label. ``only`` int16
    is the one byte that may follow, DEAD for none or several. ``beat`` int8 and ``need`` int32, the
    least number of code points still to come, serve blocks that count. In these no way has more
    code points than ``need``, so it may be longer in bytes than the shortest: ``left`` is then its
    length, and when a string begins the least count is added to it.
    """

    dfa: ByteDfa
    left: NDArray[np.int64]
    way: NDArray[np.int16]
    aim: NDArray[np.int32]
    only: NDArray[np.int16]
    exits: NDArray[np.bool_]
    first: Mapping[int, int]
    """The bytes that lead on from the start, with the states that they lead to."""
    count_event: NDArray[np.int8] | None = None
    min_remaining: NDArray[np.int32] | None = None
    bounds: tuple[int, int | None] | None = None
    """The least and the greatest count of code points, where the block counts."""
    verdicts: tuple[int, ...] = (1,)
    """The truth vector of a value, as in ``exit_actions.Done``, by label of its automaton. In a
    block of names, its labels, which are the classes of the names."""
    key: Hashable = None
    """Equal for blocks that are the same, in whatever recogniser they are laid down."""

    def __len__(self) -> int:
        return len(self.left)

    @property
    def nbytes(self) -> int:
        """Memory of the block, in bytes."""
        return self.dfa.nbytes + 32 * len(self)

    def shortest(self) -> bytes:
        """Return the text along ``way`` from the start, ignoring bounds on the count.

        It is the shortest that the automaton accepts; in blocks whose ways were chosen by code
        points, one with the fewest of these. Empty if the start accepts.
        """
        text, state = bytearray(), 0
        while self.way[state] != STOP:
            text.append(int(self.way[state]))
            state = self.dfa.step(state, int(self.way[state]))
        return bytes(text)


def block_of(
    dfa: ByteDfa,
    *,
    key: Hashable = None,
    count_event: NDArray[np.int8] | None = None,
    min_remaining: NDArray[np.int32] | None = None,
    bounds: tuple[int, int | None] | None = None,
    verdicts: tuple[int, ...] = (1,),
) -> Block:
    """Return the block of a non-empty automaton, with its ways of the fewest bytes.

    The other arguments are stored as they are. ``beat``, ``need`` and ``bounds`` come together,
    for automata that count code points.

    Every state must lead to a label. The arrays are not copied, and recognisers share blocks, so
    nothing in one may be changed afterwards.
    """
    table = np.ascontiguousarray(dfa.next)
    with without_gil(table.size // 64):
        left, way, aim, only, exits = block_ways(table, dfa.label, dfa.byte_class)
    return Block(
        dfa=dfa,
        left=left,
        way=way,
        aim=aim,
        only=only,
        first=dict(_first_moves(dfa)),
        exits=exits,
        count_event=count_event,
        min_remaining=min_remaining,
        bounds=bounds,
        verdicts=verdicts,
        key=key,
    )


def _first_moves(dfa: ByteDfa) -> Iterator[tuple[int, int]]:
    """Yield the bytes that lead on from the start, ascending, each with its target."""
    for byte, target in enumerate(dfa.next[0, dfa.byte_class].tolist()):
        if target != DEAD:
            yield byte, target
