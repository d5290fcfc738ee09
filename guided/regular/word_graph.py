"""Automata of listed texts: a minimal acyclic one, and the difference from another automaton."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, MAX_DFA_STATES, Dfa, combine, dfa_from_regular
from guided.regular.expression import EMPTY_TEXT, Alternate, Graph, Regular
from guided.runtime.work_budget import spend

__all__ = ["without_texts", "word_graph"]


class _Node(NamedTuple):
    """Whether a text may end here, and the edges: characters with the numbers of next nodes."""

    is_end: bool
    edges: tuple[tuple[str, int], ...]


class _OpenNode:
    """A node on the path of the last text, which may get more edges.

    The edge to the next node of the path is added when that node is closed.
    """

    __slots__ = ("edges", "is_end")

    def __init__(self) -> None:
        self.is_end = False
        self.edges: list[tuple[str, int]] = []


def without_texts(dfa: Dfa, texts: Iterable[str]) -> Dfa:
    """Return ``dfa`` without these texts; other texts keep their labels.

    Raises LimitExceededError as ``word_graph`` and ``combine`` do.
    """
    words = dfa_from_regular(word_graph([*texts]))
    return combine([dfa, words], lambda labels: labels[0] if labels[1] == DEAD else DEAD)


def word_graph(texts: Collection[str]) -> Regular:
    """Return the expression that matches just these texts, which share prefixes and suffixes in it.

    A text with a surrogate is lost, as no set of code points has any; callers refuse them.
    Incremental construction from sorted texts (Daciuk et al., 2000): where a text leaves the path
    of the one before, the later nodes of that path can get no more edges, and equal nodes are
    merged. Raises LimitExceededError past MAX_DFA_STATES.
    """
    # In the order of their numbers, as ``_graph`` takes them.
    numbers: dict[_Node, int] = {}
    # The open nodes along the previous text, ``before``: node ``i`` follows ``i`` of its
    # characters.
    path, before = [_OpenNode()], ""
    for text in sorted(set(texts)):
        spend(len(text) + 1)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, text)))  # noqa: B905 - one may be longer
        # Texts are sorted: no later one shares more of the path than this one does.
        _close(path, before, shared, numbers)
        path += [_OpenNode() for _ in text[shared:]]
        path[-1].is_end = True
        before = text
    _close(path, before, 0, numbers)
    (root,) = path
    graph = _graph([*numbers, _Node(False, tuple(root.edges))])
    return Alternate((graph, EMPTY_TEXT)) if root.is_end else graph


def _close(path: list[_OpenNode], text: str, length: int, numbers: dict[_Node, int]) -> None:
    """Number a text's nodes after ``length`` characters; equal ones share a number.

    They leave ``path``. Raises LimitExceededError past MAX_DFA_STATES.
    """
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
        path[-1].edges.append((text[len(path) - 1], number))


def _graph(nodes: list[_Node]) -> Graph:
    """Return the graph of some nodes, the last of which is its start.

    It is not deterministic: a character may lead both on and to the end. All texts end in one
    further state. Edges refer to nodes by their indices. The caller handles the case that the start
    is an end.
    """
    final = len(nodes)
    single = cache(CodePoints.single)
    moves: list[tuple[int, CodePoints, int]] = []
    for number, node in enumerate(nodes):
        for character, target in node.edges:
            if nodes[target].edges:
                moves.append((number, single(character), target))
            if nodes[target].is_end:
                moves.append((number, single(character), final))
    return Graph.from_moves(len(nodes) + 1, moves, final - 1, final)
