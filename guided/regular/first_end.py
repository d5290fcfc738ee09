"""Texts up to the first end marker, and texts without some part.

::

    texts  a, a</f>b      end  </f>      up to the first end  a</f>
"""

from __future__ import annotations

from guided.regular.codepoints import ANY
from guided.regular.expression import ANYTHING, Chars, Concat, Intersection, Regular

__all__ = ["texts_up_to", "texts_without"]


def texts_up_to(end: Regular, ends: Regular, texts: Regular = ANYTHING) -> Regular:
    """Return the texts followed by ``end`` that contain no earlier match of ``ends``.

    A match is earlier if at least one character follows it. ``end`` is one of ``ends``. The
    automaton has a state for each state of ``texts`` and each prefix of ``ends`` that may precede
    it.
    """
    earlier = Concat((ANYTHING, ends, Chars(ANY), ANYTHING))
    return Intersection(Concat((texts, end)), earlier, negative=True)


def texts_without(part: Regular, texts: Regular = ANYTHING) -> Regular:
    """Return the texts that contain no match of ``part``."""
    return Intersection(texts, Concat((ANYTHING, part, ANYTHING)), negative=True)
