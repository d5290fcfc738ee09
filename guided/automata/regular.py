"""Regular expressions as values: what the regex front end makes and automata are built from."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

from guided.automata.codepoints import ANY, CodePoints

__all__ = [
    "ANYTHING",
    "Alternate",
    "Both",
    "Chars",
    "Concat",
    "End",
    "Graph",
    "Look",
    "Regular",
    "Repeat",
    "Start",
    "literal",
    "word_boundary",
]


class _Node:
    """Hashes its fields once: expressions are large, and many tables are asked for them."""

    __slots__ = ("_hash",)
    __match_args__: tuple[str, ...] = ()
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(tuple(getattr(self, name) for name in self.__match_args__))
            object.__setattr__(self, "_hash", found)
            return found


@dataclass(frozen=True, slots=True)
class Chars(_Node):
    """One code point out of a set; the empty set matches nothing."""

    chars: CodePoints

    __hash__ = _Node.__hash__


@dataclass(frozen=True, slots=True)
class Concat(_Node):
    """Parts one after another; no parts match the empty text."""

    parts: tuple[Regular, ...]

    __hash__ = _Node.__hash__


@dataclass(frozen=True, slots=True)
class Alternate(_Node):
    """Any one of the options; no options match nothing."""

    options: tuple[Regular, ...]

    __hash__ = _Node.__hash__


@dataclass(frozen=True, slots=True)
class Repeat(_Node):
    """``item`` at least ``low`` and at most ``high`` times; ``None`` sets no upper bound.

    ``lazy`` is a remark of the pattern's author, the texts are the same: see
    ``guided.frontends.regex.lazy``.
    """

    item: Regular
    low: int
    high: int | None
    lazy: bool = False

    __hash__ = _Node.__hash__


@dataclass(frozen=True, slots=True)
class Start:
    """Matches the empty text at the start of the whole text."""


@dataclass(frozen=True, slots=True)
class End:
    """Matches the empty text at the end of the whole text."""


@dataclass(frozen=True, slots=True)
class Look(_Node):
    """Matches the empty text where ``item`` matches from here on (``ahead``) or up to here.

    ``negative`` turns that round: where it does not.
    """

    item: Regular
    ahead: bool = True
    negative: bool = False

    __hash__ = _Node.__hash__


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Texts along moves from ``start`` to ``final``, of ``count`` states: many that share ends.

    A move is a state, the code points that may be read there, and the state behind them.
    """

    count: int
    moves: tuple[tuple[int, CodePoints, int], ...]
    start: int
    final: int


@dataclass(frozen=True, slots=True)
class Both(_Node):
    """Texts that ``left`` accepts and ``right`` does too, or, with ``negative``, does not.

    About whole texts: it stands at the top of an expression or in another ``Both``, and each side
    is matched or searched for as the whole would be.
    """

    left: Regular
    right: Regular
    negative: bool = False

    __hash__ = _Node.__hash__


Regular: TypeAlias = Chars | Concat | Alternate | Repeat | Start | End | Graph | Look | Both

ANYTHING = Repeat(Chars(ANY), 0, None)


def literal(text: str) -> Regular:
    """Exactly ``text``."""
    return Concat(tuple(map(_character, text)))


@functools.lru_cache(maxsize=1024)
def _character(character: str) -> Chars:
    return Chars(CodePoints.single(character))


def word_boundary(word: CodePoints, *, negative: bool) -> Regular:
    """Between a character out of ``word`` and one that is not, an end of the text counting as one.

    With ``negative`` everywhere else: ``\\b`` and ``\\B`` of ECMA-262, section 22.2.2.4.
    """
    before, after = (Look(Chars(word), ahead=ahead) for ahead in (False, True))
    not_before, not_after = (Look(Chars(word), ahead=a, negative=True) for a in (False, True))
    if negative:
        return Alternate((Concat((before, after)), Concat((not_before, not_after))))
    return Alternate((Concat((before, not_after)), Concat((not_before, after))))
