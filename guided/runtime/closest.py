"""The name that was probably meant, for errors about names of a caller."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

from guided.runtime.work_budget import spend

__all__ = ["closest"]

_MOST_NAMES: Final = 200
_LONGEST: Final = 64
"""Names that are compared: two long ones take a time that grows with both of their lengths."""
_PAIR_WORK: Final = 50
"""Units of work for a pair of names."""


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` that is most like ``name``; ``None`` if none is much like it."""
    if len(name) > _LONGEST:
        return None
    compared = [*islice((each for each in names if len(each) <= _LONGEST), _MOST_NAMES)]
    spend(_PAIR_WORK * len(compared))
    return next(iter(get_close_matches(name, compared, 1)), None)
