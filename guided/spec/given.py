"""What a caller gave, brought into the form that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast

from guided.errors import InvalidConstraintError, RequestError

__all__ = ["Word", "named_pairs", "word_of"]

Word = TypeVar("Word", bound=StrEnum)


def word_of(kind: type[Word], value: object, name: str, field: str = "json_options") -> Word:
    """The member of an enumeration that a value is or names; raises RequestError for others."""
    try:
        return kind(cast("str", value))
    except ValueError as error:
        known = ", ".join(repr(word.value) for word in kind)
        raise RequestError(
            f"{name} {value!r} is none of {known}", field=f"{field}.{name}"
        ) from error


def named_pairs(given: object, what: str) -> list[tuple[str, Any]]:
    """Names, each with what is given for it; raises InvalidConstraintError for what is no such."""
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidConstraintError(
            f"the {what} are {given!r}, which names nothing", hint="pass a dictionary by name"
        )
    found: list[tuple[str, Any]] = []
    for number, pair in enumerate(pairs, start=1):
        match pair:
            case (str(name), value):
                found.append((name, value))
            case _:
                raise InvalidConstraintError(
                    f"number {number} of the {what} is {pair!r}, no name and what is given for it",
                    hint="pass a dictionary by name",
                )
    return found
