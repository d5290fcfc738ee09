"""Strongly connected components of a graph (Tarjan, SIAM J. Computing 1(2), 1972)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guided.runtime.fuel import pause_if_due

__all__ = ["components"]


def components(edges: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, given each node's targets (Tarjan).

    A component comes after all those that it leads to. Every target must be a node of ``edges``.
    """
    # ``order`` numbers nodes as they are met; ``low`` has by node the lowest number of an open one
    # that is known to be reachable from it. Open nodes are those of components that are not
    # complete, in the order in which they were met: a component is complete at its first node, the
    # one whose ``low`` is its own number, and consists of all nodes open from there on. A stack of
    # our own replaces recursion: grammars may call far deeper than Python does.
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    is_open: set[int] = set()
    found: list[list[int]] = []
    for root in edges:
        if root in order:
            continue
        stack = [(root, iter(edges[root]))]
        order[root] = low[root] = len(order)
        open_.append(root)
        is_open.add(root)
        while stack:
            pause_if_due()
            node, targets = stack[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_.append(target)
                    is_open.add(target)
                    stack.append((target, iter(edges[target])))
                    break
                if target in is_open:
                    low[node] = min(low[node], order[target])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[node])
                if low[node] == order[node]:
                    component = [open_.pop()]
                    while component[-1] != node:
                        component.append(open_.pop())
                    is_open.difference_update(component)
                    found.append(component)
    return found
