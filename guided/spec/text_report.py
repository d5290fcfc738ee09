"""How a text stands to a constraint: whether it fits, and where it leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["TextFit", "TextReport"]


class TextFit(StrEnum):
    """Whether a text fits a constraint."""

    COMPLETE = "complete"
    """It is one of its texts."""
    PREFIX = "prefix"
    """One of its texts begins with it."""
    REFUSED = "refused"
    """None of its texts begins with it."""


@dataclass(frozen=True, slots=True)
class TextReport:
    """Where a text leaves a constraint, or ends."""

    fit: TextFit
    offset: int
    """Bytes of the text, as UTF-8, that fit: the first that does not stands there."""
    allowed: bytes
    """Each byte that might stand there, in rising order; none where the text has to end."""
    may_end: bool
    """Whether the text might end there."""
    shortest_end: bytes
    """Bytes that complete the text from there, close to as few as can be."""
