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

__all__ = ["least_left"]

_MOST: Final = 1e6
"""Counts do not go further: more than the items of an answer, each of which takes a stack."""
_PRINTABLE: Final = CodePoints.from_ranges([(0x20, 0x7E)])
"""The code points that are counted: every vocabulary can spell them."""
_MOST_LENGTH: Final = 300
_MOST_WORK: Final = 20_000_000
"""Moves that are looked at: of all states by all classes of characters, for each length."""


def least_left(dfa: Dfa, bounds: tuple[int, int | None], max_start: int) -> float:
    """Return how many texts go on from any beginning of at most ``max_start`` characters, at least.

    They are the texts of ``dfa`` with a length within ``bounds``. The result may be too small: only
    printable ASCII is counted, up to a length of 300, less for large automata, and a number of a
    million.
    """
    low, high = bounds
    if not len(dfa):
        return 0
    last = min(_MOST_LENGTH, _MOST_WORK // max(1, dfa.next.size))
    if high is not None:
        last = min(last, high)
    if low > last:
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
