"""The names that were probably meant, for errors about names of a caller."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

__all__ = ["MOST_NAMES", "close_names", "closest"]

MOST_NAMES: Final = 500
"""Most names that one is compared with."""
_LIKENESS: Final = 0.6
"""From here on a name is taken for a misspelling of another; 1 is the same."""
_LONGEST: Final = 64
"""Names that are compared: two long ones take a time that grows with both of their lengths."""


def closest(name: str, names: Iterable[str], likeness: float = _LIKENESS) -> str | None:
    """Return the one of ``names`` that is most like ``name``; ``None`` if none is much like it."""
    return next(iter(close_names(name, names, 1, likeness)), None)


def close_names(
    name: str, names: Iterable[str], most: int = 3, likeness: float = _LIKENESS
) -> list[str]:
    """Return at most so many of ``names`` that are much like ``name``, the most alike first.

    Long names, and those after the first ``MOST_NAMES``, are like none.
    """
    if len(name) > _LONGEST:
        return []
    compared = [*islice((each for each in names if len(each) <= _LONGEST), MOST_NAMES)]
    return get_close_matches(name, compared, most, likeness)
