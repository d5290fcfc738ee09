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
    TOO_MUCH_OVERLAP,
    minimal_automaton,
)
from guided.regular.nfa import Nfa
from guided.regular.partition import (
    MAX_OVERLAP,
    code_point_sets,
    flatten_ranges,
    too_much_overlap_error,
)
from guided.regular.subset_kernel import COMPLETE, TOO_MANY_STATES, TOO_MUCH_WORK
from guided.runtime.work_budget import pause_if_due, spend, without_gil

__all__ = ["MAX_CELLS", "determinize"]

MAX_WORK: Final = 50_000_000
"""Most states and moves of the NFA visited, for all subsets together; one takes about 10 ns."""
MAX_MOVES: Final = 16_000_000
"""Most moves of the NFA, each counted once per class that it reads; 16 bytes each."""
MAX_CELLS: Final = 16_000_000
"""Most cells of a table, of 4 bytes; computed cell by cell, one takes about 10 ns."""
_TOO_LARGE: Final = {
    TOO_MUCH_WORK: (f"takes more than {MAX_WORK} steps to build", MAX_WORK),
    TOO_MANY_MOVES: (
        f"has more than {MAX_MOVES} moves, each by a class of characters",
        MAX_MOVES,
    ),
    TOO_MANY_CELLS: (
        f"has more than {MAX_CELLS} cells, a state each by a class of characters",
        MAX_CELLS,
    ),
}
"""What an automaton is or takes too much of, and the limit, by outcome."""


def determinize(
    nfa: Nfa, *, search: bool, max_states: int
) -> tuple[tuple[CodePoints, ...], NDArray[np.int32], NDArray[np.int32]] | None:
    """Return the minimal automaton of an NFA without look-around: classes, table and labels.

    With ``search`` a match may begin anywhere, and anything may follow it. The table is int32
    ``[states, classes]``, labels are int32 ``[states]``; -1 stands for no move and for no label,
    else labels are 0. None for more than ``max_states`` states before equal ones are merged. Raises
    LimitExceededError past any other limit.
    """
    assert not nfa.looks, "look-around needs its own construction"
    sets = [*nfa.sets]
    loops: list[int] = []
    if search:
        # Before a match and after it anything may be read. The loop at ``final`` also lets the
        # kernel, which gets ``search``, merge all subsets that have ``final`` into one.
        sets.append(ANY)
        loops = [0, nfa.final]
    # All lists in one, in the order in which ``minimal_automaton`` takes them.
    numbers, set_sizes = flatten_ranges(sets)
    sizes = [len(numbers)]
    for part in (
        set_sizes,
        [*loops, *nfa.moves.sources],
        [*loops, *nfa.moves.targets],
        [*[len(sets) - 1] * len(loops), *nfa.move_sets],
        nfa.epsilons.sources,
        nfa.epsilons.targets,
        nfa.starts.sources,
        nfa.starts.targets,
        nfa.ends.sources,
        nfa.ends.targets,
    ):
        sizes.append(len(part))
        numbers += part
    pause_if_due()
    listed = np.array(numbers, dtype=np.int32)
    # There may be many more subsets than states, so this is only a guess.
    with without_gil(nfa.count):
        outcome, steps, table, label, first, ranges = minimal_automaton(
            listed,
            tuple(sizes),
            nfa.bulk,
            nfa.bulk_size,
            nfa.count,
            nfa.final,
            search,
            max_states,
            (MAX_WORK, MAX_OVERLAP, MAX_MOVES, MAX_CELLS),
        )
    spend(steps // 64 + table.size // 8)
    if outcome == TOO_MANY_STATES:
        return None
    if outcome == TOO_MUCH_OVERLAP:
        raise too_much_overlap_error()
    if outcome != COMPLETE:
        what, limit = _TOO_LARGE[outcome]
        raise LimitExceededError(
            f"its automaton {what}", limit=limit, hint="simplify the pattern or lower its bounds"
        )
    return code_point_sets(first, ranges), table, label
