"""The findings about a constraint: on a text, on the mask of a position, and its automaton."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from guided.spec.report import CheckedConstraint
from guided.spec.result import TokenId

__all__ = [
    "AllowedToken",
    "Arrow",
    "Automaton",
    "Finding",
    "MaskReport",
    "TaskKind",
    "TextFit",
    "TextReport",
]


class TextFit(StrEnum):
    """Whether a text fits a constraint."""

    COMPLETE = "complete"
    """The text is one of the constraint's texts."""
    PREFIX = "prefix"
    """One of the constraint's texts begins with it."""
    REFUSED = "refused"
    """None of the constraint's texts begins with it."""


@dataclass(frozen=True, slots=True)
class TextReport:
    """Where a text leaves a constraint, or where it ends."""

    fit: TextFit
    offset: int
    """The number of bytes, in UTF-8, that fit; the first byte that does not is at this offset."""
    allowed: bytes
    """The bytes that may be at this offset, in rising order; none if the text must end."""
    may_end: bool
    """Whether the text may end at this offset."""
    shortest_end: bytes
    """Bytes that complete the text from there, close to the fewest possible."""


@dataclass(frozen=True, slots=True)
class AllowedToken:
    """A token that a mask allows."""

    token: TokenId
    text: bytes
    """Its bytes; empty for a token that ends the answer."""


@dataclass(frozen=True, slots=True)
class MaskReport:
    """The tokens that may follow some others."""

    allowed: int
    forbidden: int
    """Counted among all tokens of the vocabulary."""
    may_end: bool
    forced: bytes
    """The bytes that must follow, whatever the model says; often none."""
    first: tuple[AllowedToken, ...]
    """The first allowed tokens by their ids, up to a bound."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A transition between two states of an automaton."""

    source: int
    target: int
    label: str
    """The text that leads there, or a description of a class of characters for people to read."""
    is_text: bool
    """Whether the label is a text."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """The automaton of a constraint's texts, as drawn; 0 is its start."""

    states: int
    accepting: tuple[int, ...]
    """States where a text may end."""
    open: tuple[int, ...]
    """States with transitions that are not shown, as the automaton is too large."""
    arrows: tuple[Arrow, ...]


Finding: TypeAlias = CheckedConstraint | TextReport | MaskReport | Automaton
"""The possible results of work on a constraint."""

TaskKind: TypeAlias = Literal["check", "compile", "read", "mask", "draw"]
"""Work on a constraint: report on it, also compile it for requests, read a text by it, describe the
mask after some tokens, draw its automaton."""
