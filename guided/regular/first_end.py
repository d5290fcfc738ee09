"""Texts up to the first end marker, and texts without some substring.

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

__all__ = ["up_to_first_end", "without_substring"]


def up_to_first_end(end: str, texts: Dfa) -> Dfa:
    """Return the automaton of the texts followed by ``end`` in which ``end`` occurs only there.

    Raises LimitExceededError if the automaton has too many states: it has one for each state
    of ``texts`` and each prefix of ``end`` that may precede it.
    """
    ended = Concat((_expression_of(texts), literal(end)))
    earlier = Concat((ANYTHING, literal(end), Chars(ANY), ANYTHING))
    return dfa_from_regular(Intersection(ended, earlier, negative=True))


def without_substring(substring: str, texts: Dfa) -> Dfa:
    """Return the automaton of the texts that do not contain ``substring``."""
    containing = Concat((ANYTHING, literal(substring), ANYTHING))
    return dfa_from_regular(Intersection(_expression_of(texts), containing, negative=True))


def _expression_of(dfa: Dfa) -> Regular:
    """Return an automaton as an expression: a graph whose single end has no moves."""
    if not len(dfa):
        return Alternate(())
    end = len(dfa)
    # A move to a state that accepts also leads to the end: a copy of it with another target.
    ending = dfa.moves[:, dfa.accepting[dfa.moves[1]]]
    ending[1] = end
    moves = np.concatenate([dfa.moves, ending], axis=1)
    graph = Graph(end + 1, dfa.classes, moves, 0, end)
    return graph if dfa.label[0] == DEAD else Alternate((graph, EMPTY_TEXT))
