"""Room for searches that nest as deeply as a schema does."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from guided.errors import LimitExceededError

__all__ = ["MAX_FRAMES", "bounded_depth"]

MAX_FRAMES = 20_000
"""Calls inside of one another; some ten for each level of a schema. CPython keeps them on the heap
since 3.11, so the bound of 1,000 that it starts with protects nothing here."""

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def bounded_depth(function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
    """Let a function nest MAX_FRAMES deep; raises LimitExceededError where that is not enough."""

    @functools.wraps(function)
    def bounded(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        if sys.getrecursionlimit() < MAX_FRAMES:
            sys.setrecursionlimit(MAX_FRAMES)
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            raise LimitExceededError(
                "the schema nests too deeply",
                limit=MAX_FRAMES,
                field="constraint",
                hint="put fewer required values inside of one another",
            ) from error

    return bounded
