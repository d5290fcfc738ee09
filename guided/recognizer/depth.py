"""Room for searches that nest as deeply as a schema does."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from guided.errors import LimitExceededError

__all__ = ["MAX_FRAMES", "MAX_LEVELS", "allow_depth", "bounded_depth", "too_deep"]

MAX_FRAMES: Final = 20_000
"""Calls inside of one another; some ten for each level of a schema. CPython keeps them on the heap
since 3.11, so the bound of 1,000 that it starts with protects nothing here."""
MAX_LEVELS: Final = 1_000
"""Formulas inside of one another that one search follows. Compiled code nests on the stack of the
thread, where nobody counts calls: a level takes up to two KiB of its eight MiB."""

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def bounded_depth(function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
    """Let a function nest MAX_FRAMES deep; raises LimitExceededError where that is not enough."""

    @functools.wraps(function)
    def bounded(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        allow_depth()
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            raise too_deep(MAX_FRAMES) from error

    return bounded


def allow_depth() -> None:
    """Let calls nest MAX_FRAMES deep; the limit is that of the process."""
    if sys.getrecursionlimit() < MAX_FRAMES:
        sys.setrecursionlimit(MAX_FRAMES)


def too_deep(limit: int) -> LimitExceededError:
    """A schema whose parts stand too deeply inside of one another."""
    return LimitExceededError(
        "the schema nests too deeply",
        limit=limit,
        field="constraint",
        hint="put fewer required values, and fewer references, inside of one another",
    )
