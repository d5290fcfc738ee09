"""The report on a text and a constraint: whether the text fits, and where it leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["TextFit", "TextReport"]


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
