"""The subset construction (Rabin and Scott, 1959), without look-around."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.automata.fuel import spend
from guided.automata.nfa import Nfa
from guided.automata.partition import Partition
from guided.automata.subset_kernel import subset_table as _subset_table
from guided.errors import LimitExceededError

__all__ = ["subset_table"]

MAX_WORK: Final = 50_000_000
"""States of the NFA looked at, all subsets together; one takes about 10 ns."""


def subset_table(
    nfa: Nfa, parts: Partition, *, search: bool, most: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """The table over the classes of ``parts`` and the labels; None for more than ``most`` states.

    With ``search`` a match may begin anywhere, and what follows it is free. int32
    ``[states, classes]`` and ``[states]``, with -1 for no move and for no label, else label 0.
    """
    assert not nfa.looks, "look-around needs its own construction"
    width = len(parts.classes)
    member_classes: list[int] = []
    member_first = [0]
    for classes in parts.members(len(nfa.sets)):
        member_classes += classes
        member_first.append(len(member_classes))
    sources, targets, sets = nfa.all_moves()
    edges = [
        ends
        for kind in (nfa.empties, nfa.starts, nfa.ends)
        for ends in (kind.sources, kind.targets)
    ]
    members, first, *ends = _as_arrays([member_classes, member_first, *edges])
    count, table, label, work = _subset_table(
        nfa.count,
        nfa.final,
        width,
        search,
        most,
        MAX_WORK,
        members,
        first,
        sources,
        targets,
        sets,
        *ends,
    )
    spend(work // 64)
    if work > MAX_WORK:
        raise LimitExceededError(
            f"its automaton takes more than {MAX_WORK} steps to build",
            limit=MAX_WORK,
            hint="simplify the pattern or lower its bounds",
        )
    return None if count > most else (table[:count], label[:count])


def _as_arrays(lists: list[list[int]]) -> list[NDArray[np.int32]]:
    """The lists as parts of one array, which takes a fraction of the time of many."""
    joined: list[int] = []
    for each in lists:
        joined += each
    whole = np.array(joined, dtype=np.int32)
    found: list[NDArray[np.int32]] = []
    begin = 0
    for each in lists:
        end = begin + len(each)
        found.append(whole[begin:end])
        begin = end
    return found
