"""How much the property tests try: little by default, much in the long form."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from itertools import cycle, islice, product
from typing import Any, Final

__all__ = ["crossed", "first_seed", "is_long", "times"]

_IS_LONG: Final = os.environ.get("GUIDED_TESTS") == "long"
"""Set ``GUIDED_TESTS=long`` for the long form, which draws new examples in every run."""

_FACTOR: Final = 25


def is_long() -> bool:
    """Whether this run is in the long form."""
    return _IS_LONG


def times(count: int) -> int:
    """How often to do something that the short form does ``count`` times."""
    return count * _FACTOR if _IS_LONG else count


def first_seed() -> int:
    """Where the seeds of random tests begin: the short form always tries the same ones."""
    return random.SystemRandom().randrange(10**9) if _IS_LONG else 0


def crossed(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Combinations of a value of each axis, for ``parametrize``.

    The long form has all of them, the short one just enough to have every value.
    """
    values = [list(axis) for axis in axes]
    if _IS_LONG:
        return list(product(*values))
    return list(islice(zip(*map(cycle, values), strict=False), max(map(len, values))))
