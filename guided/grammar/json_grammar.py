"""The intermediate form of JSON constraints: shapes of values that refer to one another by number.

A shape says, for each type of JSON, which of its values are allowed. Alternatives of different
types stand side by side in one shape; what the machine cannot keep apart never gets here.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from guided.automata.regular import Regular

__all__ = [
    "ArrayShape",
    "Bound",
    "JsonGrammar",
    "NumberShape",
    "ObjectShape",
    "Property",
    "StringShape",
    "ValueShape",
]


@dataclass(frozen=True, slots=True)
class StringShape:
    """Strings that match every pattern, within the lengths in code points."""

    patterns: tuple[Regular, ...] = ()
    """A string matches where a pattern is found anywhere in it, as in JSON Schema."""
    min_length: int = 0
    max_length: int | None = None
    choices: tuple[str, ...] | None = None
    """The only strings allowed, where they are listed."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a range of numbers; ``strict`` leaves the value itself out."""

    value: Decimal
    strict: bool = False


@dataclass(frozen=True, slots=True)
class NumberShape:
    """Numbers between two bounds, written without exponent."""

    integer: bool = False
    low: Bound | None = None
    high: Bound | None = None
    multiple_of: int | None = None
    """Only for integers."""
    choices: tuple[Decimal, ...] | None = None
    """The only numbers allowed, where they are listed; each has one spelling."""


@dataclass(frozen=True, slots=True)
class Property:
    """A member of an object that is known by name."""

    name: str
    value: int
    """Number of the shape of its value."""
    required: bool


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Objects: named properties in order, then other members where ``extra`` allows them."""

    properties: tuple[Property, ...] = ()
    extra: int | None = None
    """Number of the shape of members that are not named; ``None`` forbids them."""
    min_extra: int = 0
    max_extra: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Arrays: items by position, then any number of further ones where ``rest`` allows them."""

    prefix: tuple[int, ...] = ()
    rest: int | None = None
    """Number of the shape of the items behind the prefix; ``None`` forbids them."""
    min_items: int = 0
    max_items: int | None = None


@dataclass(frozen=True, slots=True)
class ValueShape:
    """The values allowed at one place, by type; a shape with nothing in it allows none."""

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: tuple[NumberShape, ...] = ()
    """A number is allowed where one of these allows it."""
    strings: tuple[StringShape, ...] = ()
    """A string is allowed where one of these allows it."""
    object: ObjectShape | None = None
    array: ArrayShape | None = None


@dataclass(frozen=True, slots=True)
class JsonGrammar:
    """All shapes of a constraint, which refer to one another by their place in ``shapes``."""

    shapes: tuple[ValueShape, ...]
    pointers: tuple[str, ...]
    """Where in the schema each shape was written, as JSON pointers."""
    remarks: tuple[str | None, ...]
    """Why a shape holds less than its keywords seem to say, contradictory bounds for one."""
    root: int
