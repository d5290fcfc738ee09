"""How much the property tests try: little in every run, much where it is asked for."""

from __future__ import annotations

import os
import random
from typing import Final

__all__ = ["first_seed", "is_long", "times"]

_IS_LONG: Final = os.environ.get("GUIDED_TESTS") == "long"
"""Set ``GUIDED_TESTS=long`` for the long form, which draws new examples in every run."""

_FACTOR: Final = 25


def is_long() -> bool:
    """Whether the long form was asked for."""
    return _IS_LONG


def times(count: int) -> int:
    """How often to do something that the short form does ``count`` times."""
    return count * _FACTOR if _IS_LONG else count


def first_seed() -> int:
    """Where the seeds of random tests begin: the short form always tries the same ones."""
    return random.SystemRandom().randrange(10**9) if _IS_LONG else 0
