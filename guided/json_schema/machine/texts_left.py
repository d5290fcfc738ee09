"""How many texts go on from what a token may begin.

If there are more than an array has items, a walk over tokens need not know an item from which the
next has to differ: however a token begins the next one, some text is left.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa
from guided.runtime.work_budget import spend

__all__ = ["least_left", "reachable_within"]

_MOST: Final = 1e6
"""Counts do not go further: more than the items of an answer, each of which takes a stack."""
_PRINTABLE: Final = CodePoints.from_ranges([(0x20, 0x7E)])
"""The code points that are counted: every vocabulary can spell them."""
_MOST_STEPS: Final = 300
_MOST_WORK: Final = 20_000_000
"""Moves that are looked at; with more, no text is counted."""


def least_left(dfa: Dfa, bounds: tuple[int, int | None], max_start: int) -> float:
    """Return how many texts go on from any beginning of at most ``max_start`` characters, at least.

    They are the texts of ``dfa`` with a length within ``bounds``. The result may be too small: only
    printable ASCII is counted, up to a length of 300 and a number of a million.
    """
    low, high = bounds
    last = _MOST_STEPS if high is None else min(high, _MOST_STEPS)
    if not len(dfa) or low > last or last * dfa.next.size > _MOST_WORK:
        return 0
    spend(last * dfa.next.size // 64)
    ways = _count_by_length(dfa, last)
    now = np.zeros(len(dfa), dtype=np.bool_)
    now[0] = True
    least = _MOST
    for length in range(max_start + 1):
        if not now.any():
            break
        # With ``length`` characters already, so many may still come. None may, where a beginning is
        # as long as the bound.
        left = ways[max(low - length, 0) : max(last - length + 1, 0), now].sum(axis=0)
        least = min(least, float(left.min()))
        now = _after(dfa.next, now)
    return least


def reachable_within(table: NDArray[np.int32], steps: int) -> NDArray[np.bool_]:
    """Mark the states that at most so many moves lead to from state 0; bool ``[states]``."""
    reached = np.zeros(len(table), dtype=np.bool_)
    reached[:1] = True
    for _ in range(steps):
        more = reached | _after(table, reached)
        if (more == reached).all():
            break
        reached = more
    return reached


def _after(table: NDArray[np.int32], states: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the states that one move leads to from those marked."""
    targets = table[states]
    after = np.zeros(len(table), dtype=np.bool_)
    after[targets[targets != DEAD]] = True
    return after


def _count_by_length(dfa: Dfa, last: int) -> NDArray[np.float64]:
    """Return how many texts of each length up to ``last`` lead from each state to an end.

    Float64 ``[last + 1, states]``, at most ``_MOST``.
    """
    sizes = np.array(
        [sum(high - low + 1 for low, high in (chars & _PRINTABLE).ranges) for chars in dfa.classes]
    )
    ways = np.empty((last + 1, len(dfa)), dtype=np.float64)
    ways[0] = dfa.label != DEAD
    for length in range(last):
        # DEAD, -1, is the last place: nothing leads on from there.
        padded = np.append(ways[length], 0.0)
        ways[length + 1] = np.minimum(padded[dfa.next] @ sizes, _MOST)
    return ways
