"""The smallest acyclic automaton of a list of texts (Daciuk et al., 2000)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import MAX_DFA_STATES
from guided.regular.expression import Alternate, Concat, Graph, Regular
from guided.runtime.fuel import spend

__all__ = ["word_graph"]


class _Node(NamedTuple):
    """What may follow: whether nothing, and by letter the number of the node behind it."""

    is_end: bool
    edges: tuple[tuple[str, int], ...]


class _Open:
    """A node of the last text, which more may be added to."""

    __slots__ = ("edges", "is_end")

    def __init__(self) -> None:
        self.is_end = False
        self.edges: list[tuple[str, int]] = []


def word_graph(texts: Collection[str]) -> Regular:
    """Exactly these texts, common beginnings and ends laid together, or LimitExceededError."""
    numbers: dict[_Node, int] = {}
    path, before = [_Open()], ""

    def close(length: int) -> None:
        """Number the nodes of the last text that are further in; equal ones share a number."""
        while len(path) > length + 1:
            done = path.pop()
            number = numbers.setdefault(_Node(done.is_end, tuple(done.edges)), len(numbers))
            if number >= MAX_DFA_STATES:
                raise LimitExceededError(
                    f"the texts need more than {MAX_DFA_STATES} states",
                    limit=MAX_DFA_STATES,
                    field="constraint",
                    hint="list fewer, or write a grammar of what they are made of",
                )
            path[-1].edges.append((before[len(path) - 1], number))

    for text in sorted(set(texts)):
        spend(len(text) + 1)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, text)))  # noqa: B905 - one may be longer
        close(shared)
        path += [_Open() for _ in text[shared:]]
        path[-1].is_end = True
        before = text
    close(0)
    (first,) = path
    graph = _graph([*numbers, _Node(False, tuple(first.edges))])
    return Alternate((graph, Concat(()))) if first.is_end else graph


def _graph(nodes: list[_Node]) -> Graph:
    """The last node is the start; a further state is where all texts end."""
    final = len(nodes)
    single = cache(CodePoints.single)
    moves: list[tuple[int, CodePoints, int]] = []
    for number, node in enumerate(nodes):
        for letter, target in node.edges:
            if nodes[target].edges:
                moves.append((number, single(letter), target))
            if nodes[target].is_end:
                moves.append((number, single(letter), final))
    return Graph.of(len(nodes) + 1, moves, final - 1, final)
