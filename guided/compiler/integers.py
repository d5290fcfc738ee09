"""Integers that a host passes, such as token ids and rows: Python ints, numpy, a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

from guided.errors import RequestError

__all__ = ["to_int", "to_ints"]


def to_int(value: int, field: str) -> int:
    """Return the value as an int; raises RequestError if it is none, as a fraction or a bool.

    ``field`` names the parameter in the error.
    """
    return value if type(value) is int else to_ints((value,), field)[0]


def to_ints(values: Iterable[int], field: str) -> list[int]:
    """Return the values as ints; raises RequestError as ``to_int`` does."""
    try:
        listed = list(values)
        kinds = set(map(type, listed))
        if kinds <= {int}:
            return listed
        if bool not in kinds:
            return list(map(index, listed))
        wrong = "a truth value is no number"
    except TypeError as error:
        wrong = str(error)
    raise RequestError(f"{field}: {wrong}", field=field, hint="give whole numbers, counted from 0")
