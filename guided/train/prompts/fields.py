"""Facts that a generated text states, and the schemas to extract them."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

from guided.train.prompts import words

__all__ = [
    "Fact",
    "Schema",
    "amount",
    "boolean",
    "choice",
    "clock",
    "code",
    "date",
    "listed",
    "number",
    "object_of",
    "person",
    "phrase",
    "text",
    "word",
]

Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """A property that a schema may have, and how a text states it."""

    names: tuple[str, ...]
    """Possible names of the property."""
    schema: Callable[[Random], Schema]
    stated: Callable[[Random], str]
    """Makes the value as a text states it."""


def object_of(properties: Mapping[str, Schema]) -> Schema:
    """Return a schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def listed(items: Schema, least: int, most: int) -> Schema:
    """Return a schema of a list."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def text(most: int) -> Schema:
    """Return a schema of a text of at most this many characters."""
    return {"type": "string", "minLength": 1, "maxLength": most}


def boolean() -> Schema:
    """Return a schema of true or false."""
    return {"type": "boolean"}


def word(names: Sequence[str], values: Sequence[str]) -> Fact:
    """One of the values of a list, extracted as a text."""
    return Fact(
        tuple(names), lambda random: text(random.choice((24, 32, 48))), lambda r: r.choice(values)
    )


def choice(names: Sequence[str], values: Sequence[str]) -> Fact:
    """One of a few values, extracted as an ``enum``, often with some that do not occur."""
    return Fact(
        tuple(names),
        lambda random: {"enum": random.sample(values, len(values))},
        lambda random: random.choice(values),
    )


def phrase(names: Sequence[str], make: Callable[[Random], str]) -> Fact:
    """A text that ``make`` makes."""
    return Fact(tuple(names), lambda random: text(random.choice((32, 40, 60))), make)


def person(*names: str) -> Fact:
    """The full name of a person."""
    return phrase(names, lambda r: f"{r.choice(words.FIRST_NAMES)} {r.choice(words.LAST_NAMES)}")


def number(names: Sequence[str], least: int, most: int) -> Fact:
    """A whole number."""

    def schema(random: Random) -> Schema:
        return {"type": "integer", "minimum": 0, "maximum": most * random.choice((1, 2, 10))}

    return Fact(tuple(names), schema, lambda random: str(random.randint(least, most)))


def amount(names: Sequence[str], most: int) -> Fact:
    """A number with two digits after the point."""
    return Fact(
        tuple(names),
        lambda _: {"type": "number", "minimum": 0},
        lambda random: f"{random.randint(1, most)}.{random.choice(('00', '50', '25', '90', '99'))}",
    )


def date(*names: str) -> Fact:
    """A day, stated as people write it and extracted as in ISO 8601."""

    def stated(random: Random) -> str:
        year, month, day = random.randint(2018, 2027), random.randint(1, 12), random.randint(1, 28)
        name = words.MONTHS[month - 1]
        return random.choice(
            (f"{year}-{month:02}-{day:02}", f"{day} {name} {year}", f"{name} {day}, {year}")
        )

    pattern: Final = "^20[0-9]{2}-[0-1][0-9]-[0-3][0-9]$"
    schemas: tuple[Schema, ...] = (
        {"type": "string", "format": "date"},
        {"type": "string", "pattern": pattern},
        {"type": "string", "minLength": 8, "maxLength": 20},
    )
    return Fact(tuple(names), lambda random: random.choice(schemas), stated)


def clock(*names: str) -> Fact:
    """A time of the day."""

    def stated(random: Random) -> str:
        return f"{random.randint(7, 21):02}:{random.choice(('00', '15', '30', '45'))}"

    return Fact(
        tuple(names),
        lambda _: {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
        stated,
    )


def code(names: Sequence[str], prefix: str, digits: int) -> Fact:
    """A number of a thing, such as an order: letters, a hyphen and digits."""

    def stated(random: Random) -> str:
        return f"{prefix}-{''.join(random.choices(string.digits, k=digits))}"

    schemas: tuple[Schema, ...] = (
        {"type": "string", "pattern": f"^{prefix}-[0-9]{{{digits}}}$"},
        {"type": "string", "minLength": 3, "maxLength": 16},
    )
    return Fact(tuple(names), lambda random: random.choice(schemas), stated)
