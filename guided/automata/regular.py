"""Regular expressions as values: what the regex front end makes and automata are built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from guided.automata.codepoints import ANY, CodePoints

__all__ = [
    "ANYTHING",
    "Alternate",
    "Chars",
    "Concat",
    "End",
    "Regular",
    "Repeat",
    "Start",
    "literal",
]


@dataclass(frozen=True, slots=True)
class Chars:
    """One code point out of a set; the empty set matches nothing."""

    chars: CodePoints


@dataclass(frozen=True, slots=True)
class Concat:
    """Parts one after another; no parts match the empty text."""

    parts: tuple[Regular, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """Any one of the options; no options match nothing."""

    options: tuple[Regular, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``item`` at least ``low`` and at most ``high`` times; ``None`` sets no upper bound."""

    item: Regular
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Start:
    """Matches the empty text at the start of the whole text."""


@dataclass(frozen=True, slots=True)
class End:
    """Matches the empty text at the end of the whole text."""


Regular: TypeAlias = Chars | Concat | Alternate | Repeat | Start | End

ANYTHING = Repeat(Chars(ANY), 0, None)


def literal(text: str) -> Regular:
    """Exactly ``text``."""
    return Concat(tuple(Chars(CodePoints.single(character)) for character in text))
