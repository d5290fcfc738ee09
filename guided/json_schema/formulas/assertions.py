"""The assertions that a schema makes about one value, each about values of one type.

An assertion about strings holds of every value that is no string, and likewise for the other
types; only ``Types`` is about all of them. Formulas (``formula``) combine them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from guided.regular.expression import EMPTY_TEXT, Regular

if TYPE_CHECKING:
    from guided.json_schema.formulas.formula import Formula

__all__ = [
    "ANY_STRING",
    "ASSERTED_TYPE",
    "Assertion",
    "Booleans",
    "Bound",
    "Contains",
    "HasMember",
    "ItemCount",
    "Items",
    "JsonType",
    "LaterFormulas",
    "Length",
    "Matches",
    "MemberCount",
    "Members",
    "Names",
    "NumberChoices",
    "Numbers",
    "StringChoices",
    "Types",
    "Unique",
    "inner_formulas",
    "without_first",
]


class JsonType(StrEnum):
    """The types of JSON values (RFC 8259, section 3); integers are numbers."""

    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"
    ARRAY = "array"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Types:
    """The value has one of these types."""

    types: frozenset[JsonType]


@dataclass(frozen=True, slots=True)
class Booleans:
    """A boolean is one of these."""

    values: frozenset[bool]


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a range of numbers; ``strict`` excludes the value itself."""

    value: Decimal
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number lies between two bounds, is an integer, and is a multiple of another number."""

    integer: bool = False
    low: Bound | None = None
    high: Bound | None = None
    multiple_of: Decimal | None = None
    by_spelling: bool = False
    """Whether integers are those spelled as such, as in draft 4: ``1.0`` and ``1e0`` are none."""


@dataclass(frozen=True, slots=True)
class NumberChoices:
    """A number is one of these, compared by value."""

    values: tuple[Decimal, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """The pattern matches somewhere in a string."""

    pattern: Regular


ANY_STRING: Final = Matches(EMPTY_TEXT)
"""Any string, but, like those of all patterns, only in its canonical spelling."""


@dataclass(frozen=True, slots=True)
class Length:
    """A string has at least ``low`` and at most ``high`` code points."""

    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class StringChoices:
    """A string is one of these."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """The value of every member of an object fits the formulas for its name.

    These are the formula paired with its name in ``named``, those of all ``patterns`` that match
    the name, and ``rest`` if there is neither.
    """

    named: tuple[tuple[str, Formula], ...]
    patterns: tuple[tuple[Regular, Formula], ...]
    rest: Formula


@dataclass(frozen=True, slots=True)
class Names:
    """The name of every member of an object, taken as a string, fits the formula."""

    name: Formula


@dataclass(frozen=True, slots=True)
class HasMember:
    """An object has a member of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class MemberCount:
    """An object has at least ``low`` and at most ``high`` members."""

    low: int
    high: int | None


MAX_COPIED_PREFIX: Final = 64
"""The most formulas of a prefix that are copied after each item of an array."""


class LaterFormulas:
    """The formulas of a long prefix from a position on, which share one tuple.

    Two are equal if they share it: so what is left after each of many items takes neither time nor
    memory for all of them.
    """

    __slots__ = ("formulas", "start")

    def __init__(self, formulas: tuple[Formula, ...], start: int) -> None:
        self.formulas: Final = formulas
        self.start: Final = start

    def __len__(self) -> int:
        return len(self.formulas) - self.start

    def __getitem__(self, index: int) -> Formula:
        """Return the formula at an index from 0 on."""
        return self.formulas[self.start + index]

    def __iter__(self) -> Iterator[Formula]:
        return islice(self.formulas, self.start, None)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LaterFormulas)
            and self.formulas is other.formulas
            and self.start == other.start
        )

    def __hash__(self) -> int:
        return hash((id(self.formulas), self.start))


Prefix: TypeAlias = "tuple[Formula, ...] | LaterFormulas"


def without_first(prefix: Prefix) -> Prefix:
    """Return a prefix, which must not be empty, without its first formula.

    A short rest is a tuple: it equals all others of the same formulas, so they share results.
    """
    count = len(prefix) - 1
    if count > MAX_COPIED_PREFIX:
        if isinstance(prefix, LaterFormulas):
            return LaterFormulas(prefix.formulas, prefix.start + 1)
        return LaterFormulas(prefix, 1)
    return tuple(prefix)[1:]


@dataclass(frozen=True, slots=True)
class Items:
    """The items of an array fit the formulas of ``prefix`` by position, further ones ``rest``."""

    prefix: Prefix
    rest: Formula


@dataclass(frozen=True, slots=True)
class ItemCount:
    """An array has at least ``low`` and at most ``high`` items."""

    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Contains:
    """At least ``low`` and at most ``high`` items of an array fit the formula."""

    item: Formula
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Unique:
    """The items of an array differ from each other, and from the earlier items given here."""

    strings: tuple[str, ...] = ()
    numbers: tuple[Decimal, ...] = ()
    others: tuple[Formula, ...] = ()
    """For each earlier item of another type, a formula that only values equal to it fit."""


ObjectAssertion: TypeAlias = Members | Names | HasMember | MemberCount
ArrayAssertion: TypeAlias = Items | ItemCount | Contains | Unique
Assertion: TypeAlias = (
    Types
    | Booleans
    | Numbers
    | NumberChoices
    | Matches
    | Length
    | StringChoices
    | ObjectAssertion
    | ArrayAssertion
)


def inner_formulas(assertion: Assertion) -> tuple[Formula, ...]:
    """Return the formulas inside an assertion, about members, items or names.

    A new assertion with formulas inside has to be added here: ``JsonGrammar.nodes`` finds inner
    nodes only through this function.
    """
    match assertion:
        case Members(named, patterns, rest):
            return (*(f for _, f in named), *(f for _, f in patterns), rest)
        case Items(prefix, rest):
            return (*prefix, rest)
        case Contains(item) | Names(item):
            return (item,)
        case Unique(others=others):
            return others
        case _:
            return ()


ASSERTED_TYPE: Final[dict[type, JsonType]] = {
    Booleans: JsonType.BOOLEAN,
    Numbers: JsonType.NUMBER,
    NumberChoices: JsonType.NUMBER,
    Matches: JsonType.STRING,
    Length: JsonType.STRING,
    StringChoices: JsonType.STRING,
    Members: JsonType.OBJECT,
    Names: JsonType.OBJECT,
    HasMember: JsonType.OBJECT,
    MemberCount: JsonType.OBJECT,
    Items: JsonType.ARRAY,
    ItemCount: JsonType.ARRAY,
    Contains: JsonType.ARRAY,
    Unique: JsonType.ARRAY,
}
"""The type whose values an assertion is about; ``Types`` is about all of them."""
