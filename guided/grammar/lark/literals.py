"""Literals of Lark grammars: their escapes, their flags, and the expressions that they are."""

from __future__ import annotations

import re
from typing import Final

from guided.errors import ConstraintError, UnsupportedFeatureError
from guided.grammar.lark.source import Source
from guided.grammar.lark.syntax import Literal, Range
from guided.regular.codepoints import CodePoints
from guided.regular.expression import Chars, Concat, Regular, literal
from guided.regular.patterns.character_classes import any_case
from guided.regular.patterns.python import parse_python_regex

__all__ = ["regular_of_literal", "regular_of_range"]

_FLAGS: Final = {"i": re.I, "m": re.M, "s": re.S, "l": re.L, "u": re.U, "x": re.X}
_ESCAPE: Final = re.compile(
    r"""\\(?:
      (?P<control>[nftr])
    | x(?P<two>[0-9a-fA-F]{2}) | u(?P<four>[0-9a-fA-F]{4}) | U(?P<eight>[0-9a-fA-F]{8})
    | (?P<wrong>[xuU]|\Z)
    | (?P<backslash>\\(?!")) | (?P<quote>\\?")
    | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_CONTROLS: Final = {"n": "\n", "f": "\f", "t": "\t", "r": "\r"}
_MAX_CODE_POINT: Final = 0x10FFFF


class _WrongEscapeError(ValueError):
    """An escape that stands for no character."""


def regular_of_literal(written: Literal, source: Source) -> Regular:
    """The texts of a literal.

    Raises InvalidConstraintError or UnsupportedFeatureError, with the place.
    """
    begin, place = written.text[0], written.position
    end = written.text.rindex(begin)
    inner, flags = written.text[1:end], written.text[end + 1 :]
    if "\n" in inner and "x" not in flags:
        raise source.error(place, "a pattern of several lines needs the flag x")
    try:
        text = _unescaped(inner)
    except _WrongEscapeError as wrong:
        raise source.error(
            place, f"{written.text} has an escape that stands for nothing"
        ) from wrong
    if not text:
        raise source.error(place, "an empty literal: what may be left out is written with a ?")
    if begin == '"':
        made = literal(text.replace("\\\\", "\\"))
        return _any_case(made) if flags else made
    if "l" in flags:
        raise source.error(
            place,
            "the flag 'l', which depends on the locale, is not supported",
            UnsupportedFeatureError,
        )
    number = 0
    for flag in flags:
        number |= _FLAGS[flag]
    try:
        return parse_python_regex(text, number)
    except ConstraintError as error:
        raise source.error(place, error.message, type(error), error.hint) from error


def regular_of_range(written: Range, source: Source) -> Regular:
    """The characters of a range; raises as ``regular_of_literal`` does."""
    whole, place = written.text, written.position
    try:
        low, high = _unescaped(written.first.text[1:-1]), _unescaped(written.last.text[1:-1])
    except _WrongEscapeError as error:
        raise source.error(place, f"{whole} has an escape that stands for nothing") from error
    if len(low) != 1 or len(high) != 1 or low > high:
        raise source.error(place, f"{whole} is no range of characters")
    return Chars(CodePoints.of([(ord(low), ord(high))]))


def _unescaped(text: str) -> str:
    """A text with the escapes of characters read; others stay for whoever reads patterns."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if "\\" not in text else _ESCAPE.sub(_meant, text)


def _meant(escape: re.Match[str]) -> str:
    kind = str(escape.lastgroup)
    found = escape[kind]
    match kind:
        case "control":
            return _CONTROLS[found]
        case "two" | "four" | "eight":
            number = int(found, 16)
            if number > _MAX_CODE_POINT:
                raise _WrongEscapeError
            return chr(number)
        case "wrong":
            raise _WrongEscapeError
        case "quote":
            # Of a backslash that is escaped Lark keeps one before a quote: it means the quote.
            return '\\"' if len(found) > 1 else '"'
    return escape[0]


def _any_case(text: Regular) -> Regular:
    assert isinstance(text, Concat)
    parts = [part.chars for part in text.parts if isinstance(part, Chars)]
    return Concat(tuple([Chars(any_case(chars)) for chars in parts]))
