"""Lists of texts: their minimal acyclic automaton, and an automaton without some texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, MAX_DFA_STATES, Dfa, combine, dfa_from_regular
from guided.regular.expression import EMPTY_TEXT, Alternate, Graph, Regular
from guided.runtime.fuel import spend

__all__ = ["without", "word_graph"]


class _Node(NamedTuple):
    """Whether a text may end, and by next symbol the number of the node that it leads to."""

    is_end: bool
    edges: tuple[tuple[str, int], ...]


class _Open:
    """A node on the path of the last text, which may get more edges.

    The edge to the next node of the path is added when that node is closed.
    """

    __slots__ = ("edges", "is_end")

    def __init__(self) -> None:
        self.is_end = False
        self.edges: list[tuple[str, int]] = []


def without(dfa: Dfa, texts: Iterable[str]) -> Dfa:
    """Return the automaton without these texts; whatever else it accepts keeps its labels.

    Raises LimitExceededError as ``word_graph`` and ``combine`` do.
    """
    words = dfa_from_regular(word_graph([*texts]))
    return combine([dfa, words], lambda labels: labels[0] if labels[1] == DEAD else DEAD)


def word_graph(texts: Collection[str]) -> Regular:
    """Exactly these texts, in any order, with common beginnings and ends shared.

    Incremental construction from sorted texts (Daciuk et al., 2000): when a text leaves the path of
    the one before, the nodes left behind can get no more edges, and equal ones are merged. Raises
    LimitExceededError past MAX_DFA_STATES.
    """
    numbers: dict[_Node, int] = {}
    # The open nodes along the text ``before``: node ``i`` stands after ``i`` of its symbols.
    path, before = [_Open()], ""

    def close(length: int) -> None:
        """Number the nodes of the path after ``length`` symbols; equal ones share a number."""
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
        # Texts are sorted: no later one shares more of the path than this one does.
        close(shared)
        path += [_Open() for _ in text[shared:]]
        path[-1].is_end = True
        before = text
    close(0)
    (first,) = path
    graph = _graph([*numbers, _Node(False, tuple(first.edges))])
    return Alternate((graph, EMPTY_TEXT)) if first.is_end else graph


def _graph(nodes: list[_Node]) -> Graph:
    """Return the graph over code points of some nodes, the last of which is its start.

    All texts end in one further state. Edges name nodes by their places in ``nodes``. The caller
    handles whether the start is an end.
    """
    final = len(nodes)
    single = cache(CodePoints.single)
    moves: list[tuple[int, CodePoints, int]] = []
    for number, node in enumerate(nodes):
        for symbol, target in node.edges:
            if nodes[target].edges:
                moves.append((number, single(symbol), target))
            if nodes[target].is_end:
                moves.append((number, single(symbol), final))
    return Graph.of(len(nodes) + 1, moves, final - 1, final)
