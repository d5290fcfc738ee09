"""How JSON is written where its schema leaves a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from guided.errors import RequestError
from guided.spec.closest import close_names
from guided.spec.option import Option, at_least, between, check_rules, word_of

__all__ = [
    "FREE_WHITESPACE",
    "MAX_DIGITS",
    "UNBOUNDED",
    "FormatMode",
    "JsonOptions",
    "KeyOrder",
    "Spelling",
    "UnknownKeywords",
    "check_options",
    "check_takes_none",
    "json_options_of",
]

MAX_DIGITS: Final = 2_000
"""The most digits of a number on either side of the point, as automata have states for each."""
FREE_WHITESPACE = 32
"""What ``whitespace="free"`` stands for: a line break and an indentation of up to 31."""


UNBOUNDED: Final = "unbounded"
"""Lifts a bound where ``None`` cannot be written or means something else."""


class KeyOrder(StrEnum):
    """The order in which the members of an object are written."""

    SCHEMA = "schema"
    """Named members in the order in which the schema first names them, then the others."""
    ANY = "any"


class FormatMode(StrEnum):
    """The meaning of the keyword ``format``."""

    ASSERT = "assert"
    """A string must have the format."""
    ANNOTATE = "annotate"
    """The format is only a note for people."""


class Spelling(StrEnum):
    """How scalars are spelled."""

    CANONICAL = "canonical"
    """Numbers without exponent and without needless zeros, strings without needless escapes."""
    ANY = "any"
    """Any JSON spelling; names, and strings under a pattern, format or list, stay canonical."""


class UnknownKeywords(StrEnum):
    """What becomes of keywords that the draft of their schema does not define."""

    NOTE = "note"
    """They are notes for people, as the specification has it."""
    REFUSE = "refuse"
    """The schema is refused, as one may be misspelt, and so is a format without a rule. Those that
    begin with ``x-`` are notes, as are ``discriminator``, ``example``, ``externalDocs`` and ``xml``
    of OpenAPI."""


_UNBOUNDED: Final = ("max_array_items", "max_additional_members")
"""The options that bound nothing by default."""
_WHITESPACE = {"compact": 0, "free": FREE_WHITESPACE}


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """How JSON is written where its schema leaves a choice.

    Enumerated values may be given as plain words, e.g. ``JsonOptions(key_order="any")``. The bounds
    keep a model from writing digits, letters or spaces without end; ``None`` lifts them.
    """

    whitespace: Annotated[
        int | None,
        Option("Maximum number of white space characters between two JSON tokens.", at_least(0)),
    ] = 0
    """``"compact"`` is 0, ``"free"`` is ``FREE_WHITESPACE``."""
    key_order: Annotated[KeyOrder, Option("Order of the members of an object.")] = KeyOrder.SCHEMA
    format: Annotated[FormatMode, Option('What the keyword "format" means.')] = FormatMode.ASSERT
    spelling: Annotated[Spelling, Option("Spelling of numbers and strings.")] = Spelling.CANONICAL
    max_string_length: Annotated[
        int | None,
        Option(
            "Maximum number of characters in a string that the schema does not bound.", at_least(1)
        ),
    ] = 10_000
    max_number_digits: Annotated[
        int | None,
        Option(
            "Maximum number of digits on either side of the point where the schema sets no bound.",
            between(1, MAX_DIGITS),
        ),
    ] = 20
    unknown_keywords: Annotated[
        UnknownKeywords | None,
        Option("What becomes of unknown keywords and formats. Default: the server's, or note."),
    ] = None
    max_array_items: Annotated[
        int | None,
        Option("Maximum number of items in an array that the schema does not bound.", at_least(1)),
    ] = None
    """An array that may not end there goes on until it may; so does an object."""
    max_additional_members: Annotated[
        int | None,
        Option(
            "Maximum number of members that the schema does not name, in an object that it does not"
            " bound.",
            at_least(1),
        ),
    ] = None

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(
            self,
            whitespace: int | Literal["compact", "free"] | None = ...,
            key_order: KeyOrder | Literal["schema", "any"] = ...,
            format: FormatMode | Literal["assert", "annotate"] = ...,
            spelling: Spelling | Literal["canonical", "any"] = ...,
            max_string_length: int | None = ...,
            max_number_digits: int | None = ...,
            unknown_keywords: UnknownKeywords | Literal["note", "refuse"] | None = ...,
            max_array_items: int | None = ...,
            max_additional_members: int | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(each.default, StrEnum):
                value = word_of(type(each.default), value, each.name)
            elif each.name == "unknown_keywords" and value is not None:
                value = word_of(UnknownKeywords, value, each.name)
            elif each.name == "whitespace" and isinstance(value, str):
                value = _WHITESPACE.get(value, value)
            # The only way to set attributes of a frozen dataclass.
            object.__setattr__(self, each.name, value)
            if isinstance(each.default, int) or each.name in _UNBOUNDED:
                _check_integer(value, each.name)
        check_rules(self, "json_options.")

    def told(self) -> dict[str, object]:
        """Return by name the options that differ from the defaults; digests leave others out."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }


def json_options_of(given: Mapping[str, object]) -> JsonOptions:
    """Return the options of an object of JSON, whose members are named as the options are.

    ``UNBOUNDED`` lifts a bound, as ``None`` does. Raises RequestError for an unknown or wrong one.
    """
    known = {each.name: each for each in fields(JsonOptions)}
    options: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            close = close_names(name, known, 1) or [*known]
            raise RequestError(
                f"there is no JSON option {name[:100]!r}",
                field=f"json_options.{name[:100]}",
                hint=f"there is {', '.join(close)}",
            )
        is_bound = isinstance(known[name].default, int) or name in _UNBOUNDED
        is_lifted = value == UNBOUNDED and is_bound
        options[name] = None if is_lifted else value
    return JsonOptions(**options)


def check_options(options: object) -> None:
    """Raise RequestError unless these are JSON options."""
    if not isinstance(options, JsonOptions):
        raise RequestError(
            f"json_options {options!r} is not a guided.JsonOptions",
            field="json_options",
            hint="pass a guided.JsonOptions",
        )


def check_takes_none(options: JsonOptions | None, documents: Sized | None) -> None:
    """Raise RequestError for options or documents that are given beside a constraint."""
    if documents or options not in (None, JsonOptions()):
        raise RequestError(
            "JSON options and documents are for a schema or a type, not for a constraint",
            field="json_options",
            hint="leave them out; a guided.JsonSchema in a constraint has its own",
        )


def _check_integer(value: object, name: str) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        words = ", ".join(f'"{word}"' for word in _WHITESPACE) if name == "whitespace" else ""
        raise RequestError(
            f"{name} {value!r} is not an integer",
            field=f"json_options.{name}",
            hint=f"pass {words}{', ' if words else ''}an integer or None",
        )
