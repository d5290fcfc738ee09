"""Read numbers of tokens and rows from what a host keeps them in: ints, numpy, a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

from guided.errors import RequestError

__all__ = ["number", "numbers"]


def number(value: int, field: str) -> int:
    """Return the number; raises RequestError for anything else, such as a fraction or a bool."""
    return value if type(value) is int else numbers((value,), field)[0]


def numbers(values: Iterable[int], field: str) -> list[int]:
    """Return several numbers in the same way."""
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
