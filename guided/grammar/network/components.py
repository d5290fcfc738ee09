"""Strongly connected components of a graph (Tarjan, SIAM J. Computing 1(2), 1972)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guided.runtime.work_budget import pause_if_due

__all__ = ["strongly_connected_components"]


def strongly_connected_components(edges: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, given the targets of each node.

    A component comes after all those that it leads to (reverse topological order). Every target
    must be a key of ``edges``.
    """
    # Tarjan's algorithm, with a stack instead of recursion, as grammars may nest deeper than Python
    # calls. ``order`` numbers nodes as they are discovered; ``low`` has by node the lowest number
    # of an open node found to be reachable from it. ``open_`` are the nodes of components that are
    # not complete. A component is complete at its root, whose ``low`` is its own number, and
    # consists of all nodes from there on in ``open_``.
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
