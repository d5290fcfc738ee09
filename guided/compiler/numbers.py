"""Numbers of tokens and rows out of whatever a host keeps them in: int, numpy, a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

from guided.errors import RequestError

__all__ = ["number", "numbers"]


def number(value: int, field: str) -> int:
    """The number; raises RequestError for what is none, as fractions and truth values are."""
    return value if type(value) is int else numbers((value,), field)[0]


def numbers(values: Iterable[int], field: str) -> list[int]:
    """The same of several."""
    try:
        found = list(values)
        kinds = set(map(type, found))
        if kinds <= {int}:
            return found
        if bool not in kinds:
            return list(map(index, found))
        wrong = "a truth value is no number"
    except TypeError as error:
        wrong = str(error)
    raise RequestError(f"{field}: {wrong}", field=field, hint="give whole numbers, counted from 0")
