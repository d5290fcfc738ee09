"""Texts up to the first end: what stands between two marks, including the second one.

::

    texts  a, a</f>b      end  </f>      up to the first end  a</f>
"""

from __future__ import annotations

import numpy as np

from guided.regular.codepoints import ANY
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import (
    ANYTHING,
    EMPTY_TEXT,
    Alternate,
    Chars,
    Concat,
    Graph,
    Intersection,
    Regular,
    literal,
)

__all__ = ["up_to_first", "without_text"]


def up_to_first(end: str, texts: Dfa) -> Dfa:
    """Return the texts with ``end`` after them that have no earlier end.

    Raises LimitExceededError if the automaton has too many states: it has one for each state
    of ``texts`` and each beginning of ``end`` that may precede it.
    """
    ended = Concat((_expression(texts), literal(end)))
    earlier = Concat((ANYTHING, literal(end), Chars(ANY), ANYTHING))
    return dfa_from_regular(Intersection(ended, earlier, negative=True))


def without_text(text: str, texts: Dfa) -> Dfa:
    """Return the texts that do not contain ``text``."""
    found = Concat((ANYTHING, literal(text), ANYTHING))
    return dfa_from_regular(Intersection(_expression(texts), found, negative=True))


def _expression(dfa: Dfa) -> Regular:
    """Return the texts of an automaton as a graph with one end that has no moves out of it."""
    if not len(dfa):
        return Alternate(())
    end = len(dfa)
    # A move to a state that accepts also leads to the end: a copy of it with another target.
    ending = dfa.moves[:, dfa.accepting[dfa.moves[1]]]
    ending[1] = end
    moves = np.concatenate([dfa.moves, ending], axis=1)
    graph = Graph(end + 1, dfa.classes, moves, 0, end)
    return graph if dfa.label[0] == DEAD else Alternate((graph, EMPTY_TEXT))
