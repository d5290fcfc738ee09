"""Literals and classes of characters, as they are written in a grammar."""

from __future__ import annotations

import re
import string
from typing import Final, NamedTuple

from guided.errors import ConstraintError, InvalidConstraintError, UnsupportedFeatureError
from guided.grammar.ebnf.tokens import Token, refused
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.expression import Chars, Regular, literal
from guided.runtime.fuel import spend

__all__ = ["class_of", "literal_of"]

_CHARACTER: Final = re.compile(
    r"\\x(?P<x>[0-9a-fA-F]{2})|\\u(?P<u>[0-9a-fA-F]{4})|\\U(?P<U>[0-9a-fA-F]{8})"
    r"|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_ESCAPES: Final = {
    "n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b",
    "0": "\0", **{sign: sign for sign in string.punctuation},
}  # fmt: skip
_KINDS: Final = "dDsSwW"
"""Letters that stand for a kind of character where classes are those of a pattern."""
_WORK: Final = 15
"""Units for each character, with what is made of it."""
_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


class _Character(NamedTuple):
    code_point: int
    position: int
    is_plain: bool


def literal_of(text: str, token: Token) -> Regular:
    """The text between the quotes."""
    characters = _characters(text, token)
    for one in characters:
        if 0xD800 <= one.code_point <= 0xDFFF:
            raise refused(
                InvalidConstraintError, text, one.position,
                "a surrogate is half of a character and no text",
                r"write the whole one, such as \U0001F600",
            )  # fmt: skip
    return literal("".join(chr(one.code_point) for one in characters))


def class_of(text: str, token: Token) -> Regular:
    """The characters between the brackets; a dash at either end, or behind a range, is one."""
    listed = _characters(text, token)
    negative = bool(listed) and listed[0].is_plain and listed[0].code_point == ord("^")
    if negative:
        listed = listed[1:]
    ranges: list[tuple[int, int]] = []
    index = 0
    while index < len(listed):
        low = listed[index]
        if index + 2 < len(listed) and listed[index + 1].is_plain and _is_dash(listed[index + 1]):
            high = listed[index + 2]
            if high.code_point < low.code_point:
                raise refused(
                    InvalidConstraintError, text, low.position, "the range ends before it begins"
                )
            ranges.append((low.code_point, high.code_point))
            index += 3
        else:
            ranges.append((low.code_point, low.code_point))
            index += 1
    chars = CodePoints.of(ranges)
    # Some take a class without characters as no text at all, others as the empty one.
    if not listed or not (chars := ~chars if negative else chars):
        raise refused(InvalidConstraintError, text, token.position, "the class has no characters")
    return Chars(chars)


def _is_dash(character: _Character) -> bool:
    return character.code_point == ord("-")


def _characters(text: str, token: Token) -> list[_Character]:
    begin, end = token.position + 1, token.position + len(token.text) - 1
    spend(_WORK * (end - begin))
    return [_character(text, found) for found in _CHARACTER.finditer(text, begin, end)]


def _character(text: str, found: re.Match[str]) -> _Character:
    position, group = found.start(), str(found.lastgroup)
    if group == "plain":
        return _Character(ord(found[0]), position, True)
    if group != "escaped":
        code_point = int(found[group], 16)
        if code_point > MAX_CODE_POINT:
            raise refused(
                InvalidConstraintError, text, position, f"{found[0]} is beyond all characters"
            )
        return _Character(code_point, position, False)
    letter = found["escaped"]
    if letter not in _ESCAPES:
        raise _wrong_escape(text, position, letter)
    return _Character(ord(_ESCAPES[letter]), position, False)


def _wrong_escape(text: str, position: int, letter: str) -> ConstraintError:
    if letter in _KINDS:
        return refused(
            UnsupportedFeatureError, text, position, f"the class \\{letter} is not supported",
            "list its characters, such as [0-9]",
        )  # fmt: skip
    what = f"\\{letter} is no escape"
    if letter in _DIGITS:
        what = f"\\{letter} wants {_DIGITS[letter]} hexadecimal digits"
    return refused(InvalidConstraintError, text, position, what)
