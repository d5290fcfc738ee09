"""The findings about a constraint: the mask of a position, and its automaton."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from guided.spec.report import CheckedConstraint
from guided.spec.result import TokenId
from guided.spec.text_report import TextReport

__all__ = ["AllowedToken", "Arrow", "Automaton", "Finding", "MaskReport"]


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
    """The text that leads there, or a class of characters in regular expression syntax."""
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
