"""Declarations of options: the default, the meaning and the allowed values of each.

They are fields of ``Sampling``, ``Beams``, ``JsonOptions`` and ``GenerationRequest``. The keyword
arguments of the client, the fields of messages, and the flags of the command line follow from
these; tests/unit/test_options.py checks every option in each of these layers. A new one needs:

1. a field of one of the dataclasses, and a line of the ``TypedDict`` below it for type checkers;
2. a field of the same name in proto/guided/v1/generation.proto (``make proto``);
3. a line in docs/using.md, and one in the table of the test.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral
from typing import Any, TypeVar, cast, get_type_hints

from guided.errors import InvalidConstraintError, RequestError

__all__ = [
    "Option",
    "Rule",
    "above",
    "at_least",
    "between",
    "check_characters",
    "check_kind",
    "check_rules",
    "inside",
    "named_pairs",
    "options_of",
    "sorted_by_name",
    "word_of",
]

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers that an option may have. NaN must break every rule."""

    allows: Callable[[float], bool]
    complaint: str
    """The end of the message for a number that breaks it, after the name and the number."""


def at_least(least: int) -> Rule:
    """Allow numbers from ``least`` up."""
    return Rule(lambda value: value >= least, f"is below {least}")


def between(low: float, high: int) -> Rule:
    """Allow numbers from ``low`` to ``high``."""
    return Rule(lambda value: low <= value <= high, f"is not between {low} and {high}")


def above(low: int, most: float) -> Rule:
    """Allow numbers above ``low``, and at most ``most``."""
    return Rule(lambda value: low < value <= most, f"is not above {low} and at most {most:g}")


def inside(low: int, high: int) -> Rule:
    """Allow numbers strictly between ``low`` and ``high``."""
    return Rule(lambda value: low < value < high, f"is not above {low} and below {high}")


@dataclass(frozen=True, slots=True)
class Option:
    """Annotates a dataclass's field that callers may set."""

    text: str
    """The meaning of the option, also shown to users."""
    rule: Rule | None = None
    group: str = ""
    """The heading that it is listed under."""


@functools.cache
def options_of(kind: type) -> Mapping[str, Option]:
    """Return the options among the fields of a dataclass, by name and in order."""
    hints = get_type_hints(kind, include_extras=True).items()
    return {
        name: option
        for name, hint in hints
        for option in getattr(hint, "__metadata__", ())
        if isinstance(option, Option)
    }


def check_rules(options: Any, path: str = "") -> None:
    """Raise RequestError for the first option that breaks its rule; ``None`` breaks none.

    ``path`` is the place of the options in a request, e.g. ``sampling.``.
    """
    kind: Any = type(options)
    for name, option in options_of(kind).items():
        value = getattr(options, name)
        if option.rule is not None and value is not None and not option.rule.allows(value):
            raise RequestError(f"{name} {value!r} {option.rule.complaint}", field=f"{path}{name}")


def check_kind(value: object, kind: type[int], field: str) -> None:
    """Raise RequestError unless a value is an integer, or if ``kind`` is ``bool`` a truth value."""
    is_bool = isinstance(value, bool)
    if not (is_bool if kind is bool else isinstance(value, Integral) and not is_bool):
        described = "True or False" if kind is bool else "an integer"
        name = field.rpartition(".")[2]
        raise RequestError(f"{name} {value!r} is not {described}", field=field)


def check_characters(text: str, what: str, field: str) -> None:
    """Raise RequestError if a text holds half of a surrogate pair, which no UTF-8 can encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{what} {text!r:.80} holds a surrogate, which is half of a character", field=field
        ) from error


def word_of(kind: type[Word], value: object, name: str, within: str = "json_options") -> Word:
    """Return the enumeration member that a value is or names; raises RequestError."""
    try:
        return kind(cast("str", value))
    except ValueError as error:
        known = ", ".join(repr(word.value) for word in kind)
        field = f"{within}.{name}" if within else name
        raise RequestError(f"{name} {value!r} is none of {known}", field=field) from error


def named_pairs(given: object, what: str) -> list[tuple[str, Any]]:
    """Return pairs of a name and a value, from a mapping or a list of pairs.

    Raises InvalidConstraintError for anything else.
    """
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


def sorted_by_name(pairs: Iterable[tuple[str, T]], what: str) -> tuple[tuple[str, T], ...]:
    """Return pairs sorted by name, so that their given order has no effect.

    Raises InvalidConstraintError for a repeated name; ``what`` is the message about it.
    """
    ordered = tuple(sorted(pairs, key=lambda pair: pair[0]))
    for (name, _), (following, _) in itertools.pairwise(ordered):
        if name == following:
            raise InvalidConstraintError(what.format(name))
    return ordered
