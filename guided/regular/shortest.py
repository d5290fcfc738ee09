"""Shortest ways to an end inside an automaton over bytes."""

from __future__ import annotations

from typing import Final

from guided.runtime.kernel import making_kernel

__all__ = ["STOP", "fewer_code_points"]

STOP: Final = -1
"""In place of a byte: the shortest way ends here."""


@making_kernel
def fewer_code_points(table, between, need):  # type: ignore[no-untyped-def]
    """Lower ``need``, the code points from each state to an end, by what its moves lead to.

    int32 ``[states]``; a byte completes one where it leads to one of the first ``between`` states.
    Says whether anything changed. Later states come first, as most moves lead to them.
    """
    changed = False
    for state in range(len(table) - 1, -1, -1):
        for target in table[state]:
            if target >= 0:
                through = need[target] + (1 if target < between else 0)
                if through < need[state]:
                    need[state] = through
                    changed = True
    return changed
