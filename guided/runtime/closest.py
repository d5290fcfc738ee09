"""The name that was probably meant, found while work is counted."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from guided.runtime.work_budget import spend
from guided.spec import closest as names_alike

__all__ = ["closest"]

_PAIR_WORK: Final = 50
"""Units of work for a pair of names."""


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` that is most like ``name``; ``None`` if none is much like it."""
    compared = [*islice(names, names_alike.MOST_NAMES)]
    spend(_PAIR_WORK * len(compared))
    return names_alike.closest(name, compared)
