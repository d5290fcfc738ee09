"""Automata over bytes, with what a recogniser has to know about each state, computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.machine.block_kernels import find_nearest_labels
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from guided.regular.reachability import STOP
from guided.runtime.work_budget import without_gil

__all__ = [
    "CLOSE_STRING",
    "CODE_POINT_END",
    "INSIDE",
    "NO_EVENT",
    "START",
    "STOP",
    "Block",
    "make_block",
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
    """An automaton ready to be added to a transition table, with a row for each state.

    All arrays have one entry per state. ``distance`` int64 is the number of bytes to the nearest
    state with a label, ``next_byte`` int16 the first of them or STOP, ``nearest_label`` int32 that
    label. ``only`` int16 is the only byte that may follow, DEAD for none or several. ``exits`` bool
    says of a state with a label that no byte may follow.

    Blocks that count code points have ``count_event`` int8 and ``min_remaining`` int32, the least
    number of code points still to come; where only the options bound the count it may be more.
    There ``next_byte`` leads along a path with only ``min_remaining`` code points, which may be
    longer in bytes than the shortest: ``distance`` is the length of that path. In the states in
    which nothing is counted yet, whoever sets ``bounds`` has added the least count to it.
    """

    dfa: ByteDfa
    distance: NDArray[np.int64]
    next_byte: NDArray[np.int16]
    nearest_label: NDArray[np.int32]
    only: NDArray[np.int16]
    exits: NDArray[np.bool_]
    start_moves: Mapping[int, int]
    """The bytes that lead on from the start, with the states that they lead to."""
    count_event: NDArray[np.int8] | None = None
    min_remaining: NDArray[np.int32] | None = None
    bounds: tuple[int, int | None] | None = None
    """The least and the greatest count of code points, where the block counts."""
    truth_vectors: tuple[int, ...] = (1,)
    """The truth vector of a value, as in ``exit_actions.Done``, by label of its automaton. In a
    block of names, its labels, which are the classes of the names."""

    def __len__(self) -> int:
        return len(self.distance)

    @property
    def nbytes(self) -> int:
        """Memory of the block, in bytes."""
        return self.dfa.nbytes + 32 * len(self)

    def shortest_text(self) -> bytes:
        """Return the text along ``next_byte`` from the start, ignoring bounds on the count.

        It is the shortest that the automaton accepts; in blocks that count code points, one with
        the fewest of these. Empty if the start accepts.
        """
        text, state = bytearray(), 0
        while self.next_byte[state] != STOP:
            text.append(int(self.next_byte[state]))
            state = self.dfa.step(state, int(self.next_byte[state]))
        return bytes(text)


def make_block(
    dfa: ByteDfa,
    *,
    count_event: NDArray[np.int8] | None = None,
    min_remaining: NDArray[np.int32] | None = None,
    bounds: tuple[int, int | None] | None = None,
    truth_vectors: tuple[int, ...] = (1,),
) -> Block:
    """Return the block of a non-empty automaton, with paths of the fewest bytes to labels.

    The other arguments are stored as they are. ``count_event``, ``min_remaining`` and ``bounds``
    come together, for automata that count code points.

    Every state must lead to a label. The arrays are not copied, and recognisers share blocks, so
    nothing in one may be changed afterwards.
    """
    table = np.ascontiguousarray(dfa.next)
    with without_gil(table.size // 64):
        distance, next_byte, nearest_label, only, exits = find_nearest_labels(
            table, dfa.label, dfa.byte_class
        )
    return Block(
        dfa=dfa,
        distance=distance,
        next_byte=next_byte,
        nearest_label=nearest_label,
        only=only,
        start_moves=dict(_moves_from_start(dfa)),
        exits=exits,
        count_event=count_event,
        min_remaining=min_remaining,
        bounds=bounds,
        truth_vectors=truth_vectors,
    )


def _moves_from_start(dfa: ByteDfa) -> Iterator[tuple[int, int]]:
    """Yield the bytes that lead on from the start, ascending, each with its target."""
    for byte, target in enumerate(dfa.next[0, dfa.byte_class].tolist()):
        if target != DEAD:
            yield byte, target
