"""What looking at a constraint finds: the mask of a position, and its automaton."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from guided.spec.report import CheckedConstraint
from guided.spec.result import TokenId
from guided.spec.text_report import TextReport

__all__ = ["AllowedToken", "Arrow", "Automaton", "Finding", "MaskReport"]


@dataclass(frozen=True, slots=True)
class AllowedToken:
    """A token that a mask holds."""

    token: TokenId
    text: bytes
    """Its bytes; none for a token that ends the answer."""


@dataclass(frozen=True, slots=True)
class MaskReport:
    """Which tokens may follow some others."""

    allowed: int
    forbidden: int
    """Of all tokens of the vocabulary."""
    may_end: bool
    forced: bytes
    """What has to follow, whatever the model says; often nothing."""
    first: tuple[AllowedToken, ...]
    """The first of the allowed tokens by their numbers, a bounded many."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A way from one state of an automaton to another."""

    source: int
    target: int
    label: str
    """The text that leads there, or a class of characters as expressions write it."""
    is_text: bool
    """Whether the label is a text."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """The automaton of a constraint's texts, as it is drawn; 0 is its start."""

    states: int
    accepting: tuple[int, ...]
    """States where a text may end."""
    open: tuple[int, ...]
    """States whose ways on are not shown, as the automaton is too large."""
    arrows: tuple[Arrow, ...]


Finding: TypeAlias = CheckedConstraint | TextReport | MaskReport | Automaton
"""What work on a constraint may end with."""
