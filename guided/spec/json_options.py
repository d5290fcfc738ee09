"""How JSON is written where its schema leaves that open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from guided.errors import RequestError
from guided.spec.given import word_of

__all__ = ["FREE_WHITESPACE", "FormatMode", "JsonOptions", "KeyOrder", "Spelling"]

FREE_WHITESPACE = 32
"""What ``whitespace="free"`` stands for: a line break and an indentation of up to 31."""


class KeyOrder(StrEnum):
    """In which order the members of an object are written."""

    SCHEMA = "schema"
    """Named members in the order in which the schema first names them, then the others."""
    ANY = "any"


class FormatMode(StrEnum):
    """What ``format`` means."""

    ASSERT = "assert"
    """A string has to be of the format."""
    ANNOTATE = "annotate"
    """A note to people."""


class Spelling(StrEnum):
    """How scalars are spelled."""

    CANONICAL = "canonical"
    """Numbers without exponent and without needless zeros, strings without needless escapes."""
    ANY = "any"
    """Whatever JSON allows; names, and strings under a pattern, format or list, stay canonical."""


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """How JSON is written where its schema leaves that open.

    Enumerated values may be given as plain words, e.g. ``JsonOptions(key_order="any")``. The bounds
    keep a model from writing digits, letters or spaces without end; ``None`` lifts them.
    """

    whitespace: int | None = 0
    """White space characters at most between two tokens of JSON.

    ``"compact"`` is 0, ``"free"`` is ``FREE_WHITESPACE``.
    """
    key_order: KeyOrder = KeyOrder.SCHEMA
    format: FormatMode = FormatMode.ASSERT
    spelling: Spelling = Spelling.CANONICAL
    max_string_length: int | None = 10_000
    """Code points of a string whose schema sets no bound."""
    max_number_digits: int | None = 20
    """Digits on either side of the point, of a number whose schema sets no bound there."""

    if TYPE_CHECKING:
        # What may be given is wider than what is kept.
        def __init__(
            self,
            whitespace: int | Literal["compact", "free"] | None = 0,
            key_order: KeyOrder | Literal["schema", "any"] = KeyOrder.SCHEMA,
            format: FormatMode | Literal["assert", "annotate"] = FormatMode.ASSERT,
            spelling: Spelling | Literal["canonical", "any"] = Spelling.CANONICAL,
            max_string_length: int | None = 10_000,
            max_number_digits: int | None = 20,
        ) -> None: ...

    def __post_init__(self) -> None:
        # The only way to set what is derived in a frozen value.
        object.__setattr__(self, "whitespace", _whitespace(self.whitespace))
        object.__setattr__(self, "key_order", word_of(KeyOrder, self.key_order, "key_order"))
        object.__setattr__(self, "format", word_of(FormatMode, self.format, "format"))
        object.__setattr__(self, "spelling", word_of(Spelling, self.spelling, "spelling"))
        _check_bound(self.whitespace, 0, "whitespace", '"compact", "free", an integer or None')
        _check_bound(self.max_string_length, 1, "max_string_length", "an integer or None")
        _check_bound(self.max_number_digits, 1, "max_number_digits", "an integer or None")


def _whitespace(value: object) -> object:
    if isinstance(value, str):
        return {"compact": 0, "free": FREE_WHITESPACE}.get(value, value)
    return value


def _check_bound(value: object, least: int, name: str, described: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(
            f"{name} {value!r} is not an integer",
            field=f"json_options.{name}",
            hint=f"pass {described}",
        )
    if value < least:
        raise RequestError(f"{name} {value!r} is below {least}", field=f"json_options.{name}")
