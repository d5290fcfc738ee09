"""The subset construction (Rabin and Scott, 1959), without look-around."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.automata.fuel import spend
from guided.automata.nfa import Edges, Nfa
from guided.automata.partition import Partition
from guided.automata.subset_kernel import subset_table as _subset_table
from guided.errors import LimitExceededError

__all__ = ["subset_table"]

MAX_WORK: Final = 50_000_000
"""States of the NFA looked at, all subsets together; one takes about 10 ns."""


_NO_EDGES: Final = np.empty(0, dtype=np.int32)


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
    count, table, label, work = _subset_table(
        nfa.count,
        nfa.final,
        width,
        search,
        most,
        MAX_WORK,
        _int32(member_classes),
        _int32(member_first),
        sources,
        targets,
        sets,
        *_pair(nfa.empties),
        *_pair(nfa.starts),
        *_pair(nfa.ends),
    )
    spend(work // 64)
    if work > MAX_WORK:
        raise LimitExceededError(
            f"its automaton takes more than {MAX_WORK} steps to build",
            limit=MAX_WORK,
            hint="simplify the pattern or lower its bounds",
        )
    return None if count > most else (table[:count], label[:count])


def _int32(numbers: Iterable[int]) -> NDArray[np.int32]:
    return np.array(numbers, dtype=np.int32)


def _pair(edges: Edges) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    if not edges.sources:
        return _NO_EDGES, _NO_EDGES
    return _int32(edges.sources), _int32(edges.targets)
