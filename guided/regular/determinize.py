"""Deterministic automata from non-deterministic ones, without look-around."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import ANY, CodePoints
from guided.regular.determinize_kernel import (
    TOO_MANY_CELLS,
    TOO_MANY_MOVES,
    TOO_MANY_STATES,
    TOO_MUCH_OVERLAP,
    TOO_MUCH_WORK,
    minimal_automaton,
)
from guided.regular.nfa import Nfa
from guided.regular.partition import MAX_OVERLAP, overlap_too_much, sets_in_turn
from guided.runtime.fuel import pause_if_due, spend, without_gil

__all__ = ["MAX_CELLS", "smallest_table"]

MAX_WORK: Final = 50_000_000
"""States and moves of the NFA looked at, for all subsets together; one takes about 10 ns."""
MAX_MOVES: Final = 16_000_000
"""Moves of the NFA, each counted once per class that it reads; 16 bytes each."""
MAX_CELLS: Final = 16_000_000
"""Cells of a table, of 4 bytes; computed cell by cell, one takes about 10 ns."""


def smallest_table(
    nfa: Nfa, *, search: bool, most: int
) -> tuple[tuple[CodePoints, ...], NDArray[np.int32], NDArray[np.int32]] | None:
    """Return the classes, the table over them and the labels; None for more than ``most`` states.

    With ``search`` a match may begin anywhere, and anything may follow it. The table is int32
    ``[states, classes]`` and minimal, labels are int32 ``[states]``; -1 stands for no move and for
    no label, else labels are 0. ``most`` limits states before equal ones merge. For an NFA without
    look-around. Raises LimitExceededError past any other limit.
    """
    assert not nfa.looks, "look-around needs its own construction"
    sets = [*nfa.sets]
    loops: list[int] = []
    if search:
        # Before a match and after it anything may be read. The loop at ``final`` also lets the
        # kernel, which gets ``search``, merge all subsets that have ``final`` into one.
        sets.append(ANY)
        loops = [0, nfa.final]
    # The lists in the order in which ``minimal_automaton`` separates them again.
    numbers, set_sizes = sets_in_turn(sets)
    sizes = [len(numbers)]
    for each in (
        set_sizes,
        [*loops, *nfa.moves.sources],
        [*loops, *nfa.moves.targets],
        [*[len(sets) - 1] * len(loops), *nfa.move_sets],
        nfa.empties.sources,
        nfa.empties.targets,
        nfa.starts.sources,
        nfa.starts.targets,
        nfa.ends.sources,
        nfa.ends.targets,
    ):
        sizes.append(len(each))
        numbers += each
    pause_if_due()
    listed = np.array(numbers, dtype=np.int32)
    # There may be many more subsets than states, so this is only a guess.
    with without_gil(nfa.count):
        outcome, steps, table, label, first, ranges, origin = minimal_automaton(
            listed,
            tuple(sizes),
            nfa.bulk,
            nfa.bulk_size,
            nfa.count,
            nfa.final,
            search,
            most,
            (MAX_WORK, MAX_OVERLAP, MAX_MOVES, MAX_CELLS),
        )
    spend(steps // 64 + table.size // 8)
    if outcome == TOO_MANY_STATES:
        return None
    if outcome == TOO_MUCH_WORK:
        raise LimitExceededError(
            f"its automaton takes more than {MAX_WORK} steps to build",
            limit=MAX_WORK,
            hint="simplify the pattern or lower its bounds",
        )
    if outcome == TOO_MUCH_OVERLAP:
        raise overlap_too_much()
    if outcome == TOO_MANY_MOVES:
        raise LimitExceededError(
            f"its automaton has more than {MAX_MOVES} moves, each by a class of characters",
            limit=MAX_MOVES,
            hint="simplify the pattern or lower its bounds",
        )
    if outcome == TOO_MANY_CELLS:
        raise LimitExceededError(
            f"its automaton has more than {MAX_CELLS} cells, a state each by a class of characters",
            limit=MAX_CELLS,
            hint="simplify the pattern or lower its bounds",
        )
    return _classes(sets, origin.tolist(), first, ranges), table, label


def _classes(
    sets: list[CodePoints],
    origin: list[int],
    first: NDArray[np.int32],
    ranges: NDArray[np.int32],
) -> tuple[CodePoints, ...]:
    """Return the classes as sets; ``origin`` has by class the set that it equals, -1 if none.

    ``first`` and ``ranges`` are the ranges of the classes, as ``ranges_by_group`` returns them. An
    existing set is used again: its hash is known, and so is what was made from it.
    """
    if -1 not in origin:
        return tuple([sets[number] for number in origin])
    begin: list[int] = first.tolist()
    lows, highs = ranges.tolist()
    return tuple(
        [
            sets[number]
            if number != -1
            else CodePoints(
                tuple([(lows[at], highs[at]) for at in range(begin[index], begin[index + 1])])
            )
            for index, number in enumerate(origin)
        ]
    )
