"""Context-free grammars as front ends hand them over: rules over terminals, without a scanner.

The language is the context-free one over the languages of the terminals: any text that can be cut
into terminals so that some derivation reads them, whatever a scanner would have cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from guided.automata.regular import Look, Regular

__all__ = [
    "Alone",
    "Body",
    "Call",
    "Choice",
    "ContextFreeGrammar",
    "Hole",
    "InContext",
    "Sequence",
    "Terminal",
    "Times",
    "ToContext",
]


@dataclass(frozen=True, slots=True)
class Terminal:
    """One text of a regular language of code points; ignored text may stand before it.

    Look-around in ``regular`` sees that text alone.
    """

    regular: Regular
    before: tuple[Look, ...] = ()
    """Look-behinds that have to hold where it begins, of all that was written up to there."""
    after: tuple[Look, ...] = ()
    """Look-aheads that have to hold where it ends, of all that follows."""


@dataclass(frozen=True, slots=True)
class Hole:
    """One text of another recogniser; ignored text may stand before it."""

    number: int


@dataclass(frozen=True, slots=True)
class Call:
    """One text of a rule."""

    rule: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after another; no parts are the empty text."""

    parts: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the options."""

    options: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Times:
    """``item`` at least ``low`` and at most ``high`` times; ``None`` sets no upper bound."""

    item: Body
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Alone:
    """A text of ``item``, whose terminals do not see what stands around it."""

    item: Body


@dataclass(frozen=True, slots=True)
class InContext:
    """Nothing, where one of these contexts is the one that was turned to last, 0 at first."""

    contexts: frozenset[int]


@dataclass(frozen=True, slots=True)
class ToContext:
    """Nothing; turns to a context."""

    context: int


Body: TypeAlias = Terminal | Hole | Call | Sequence | Choice | Times | Alone | InContext | ToContext


@dataclass(frozen=True, slots=True, eq=False)
class ContextFreeGrammar:
    """Every rule that a body calls is among ``rules``; nesting inside a body is bounded.

    Where no body is ``Alone``, its terminals see the whole text.
    """

    rules: Mapping[str, Body]
    start: str
    ignored: tuple[Terminal, ...] = ()
    """Texts of these, any number of them, may stand before each terminal and at the end."""
