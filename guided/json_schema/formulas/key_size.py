"""The memory of keys of caches, which callers choose by what they write into schemas."""

from __future__ import annotations

import sys
from collections.abc import Hashable

from guided.regular.expression import Graph
from guided.runtime.work_budget import pause_if_due

__all__ = ["key_size"]


def key_size(key: Hashable) -> int:
    """Return about how many bytes a key takes, each object in it once.

    They are most of an entry where a long list or pattern has a small automaton, or none.
    """
    size = 0
    seen: set[int] = set()
    worklist: list[object] = [key]
    while worklist:
        pause_if_due()
        item = worklist.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        size += sys.getsizeof(item)
        if isinstance(item, tuple | frozenset):
            worklist += item
        elif not isinstance(item, Graph):
            # Graphs are those of formats, which are kept in any case.
            worklist += [getattr(item, name) for name in getattr(item, "__match_args__", ())]
    return size
