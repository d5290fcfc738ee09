"""The text of an EBNF grammar cut into tokens, and the values of its literals and classes."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from guided.errors import ConstraintError, InvalidConstraintError, UnsupportedFeatureError
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.expression import Chars, Regular, literal
from guided.runtime.fuel import spend
from guided.spec.source_position import SourcePosition

__all__ = ["Token", "class_of", "literal_of", "refused", "tokens_of"]

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>(?:[ \t\r\n]|\#[^\r\n]*)+)
    | (?P<macro>(?:TagDispatch|TokenTagDispatch|Token|ExcludeToken|Regex)[ \t]*\()
    | (?P<dotted>[\w-]+\.[\w-][\w.-]*)
    | (?P<name>[\w-]+)
    | (?P<defined>::=)
    | (?P<literal>"(?:\\.|[^"\\])*")
    | (?P<class>\[(?:\\.|[^]\\])*\])
    | (?P<bounds>\{[ \t]*\d+[ \t]*(?:,[ \t]*\d*[ \t]*)?\})
    | (?P<ahead>\(=)
    | (?P<token>!?<[^<>\s]+>)
    | (?P<sign>[|()*+?.])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_UNFINISHED: Final = {
    '"': 'the literal has no closing "',
    "[": "the class has no closing ]",
    "{": "these are no bounds, which are {2}, {2,} or {2,3}",
    ":": "here a rule would be defined by ::=",
}
_UNSUPPORTED: Final = {
    "macro": (
        "a macro of xgrammar is not supported",
        "write the texts that it stands for as rules",
    ),
    "dotted": (
        "a name with a dot is not supported",
        "rename the rule; a dot that stands for any character wants a space before it",
    ),
    "token": (
        "a token of the vocabulary instead of text is not supported",
        "write the text that it stands for; special tokens are no part of an answer",
    ),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; ``kind`` is a sign itself, or the name of a group above, or "end"."""

    kind: str
    text: str
    position: int


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens in order, the last of kind "end"; blanks and comments are left out.

    Raises InvalidConstraintError or UnsupportedFeatureError, with the position.
    """
    position = 0
    while position < len(text):
        spend(5)
        found = _TOKEN.match(text, position)
        if found is None:
            sign = text[position]
            what = _UNFINISHED.get(sign, f"{sign!r} means nothing here")
            raise refused(InvalidConstraintError, text, position, what)
        kind = str(found.lastgroup)
        if kind in _UNSUPPORTED:
            what, hint = _UNSUPPORTED[kind]
            raise refused(UnsupportedFeatureError, text, position, what, hint)
        if kind != "blank":
            yield Token(found[0] if kind == "sign" else kind, found[0], position)
        position = found.end()
    yield Token("end", "the end", position)


def refused(
    error: type[ConstraintError], text: str, position: int, what: str, hint: str | None = None
) -> ConstraintError:
    """Return the error with line, column and a caret."""
    return error(SourcePosition(text, position).message(what), position=position, hint=hint)


# --- literals and classes ------------------------------------------------------------------

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
"""Letters that stand for a kind of character in the classes of patterns."""
_WORK: Final = 15
"""Units of work per character, with what is made of it."""
_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


class _Character(NamedTuple):
    """A character of a literal or a class, and where it is written."""

    code_point: int
    position: int
    is_plain: bool
    """Whether it is written as itself; only then can it be a sign such as ``^`` or a dash."""


def literal_of(text: str, token: Token) -> Regular:
    """Return the text between the quotes; raises InvalidConstraintError for one that is no text."""
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
    """Return the characters between the brackets; a dash at either end or after a range is itself.

    After a ``^`` all other characters. Raises InvalidConstraintError for an invalid range, and
    if no character is left.
    """
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
    # Some programs take a class without characters for no text at all, others for the empty one.
    if not listed or not (chars := ~chars if negative else chars):
        raise refused(InvalidConstraintError, text, token.position, "the class has no characters")
    return Chars(chars)


def _is_dash(character: _Character) -> bool:
    return character.code_point == ord("-")


def _characters(text: str, token: Token) -> list[_Character]:
    """Return the characters between the first and last sign of a token, with escapes resolved."""
    begin, end = token.position + 1, token.position + len(token.text) - 1
    spend(_WORK * (end - begin))
    return [_character(text, found) for found in _CHARACTER.finditer(text, begin, end)]


def _character(text: str, found: re.Match[str]) -> _Character:
    """Return the character that a match of _CHARACTER writes; the caller handles surrogates."""
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
    """Return the error for a backslash before a letter with which it means nothing here."""
    if letter in _KINDS:
        return refused(
            UnsupportedFeatureError, text, position, f"the class \\{letter} is not supported",
            "list its characters, such as [0-9]",
        )  # fmt: skip
    what = f"\\{letter} is no escape"
    if letter in _DIGITS:
        what = f"\\{letter} wants {_DIGITS[letter]} hexadecimal digits"
    return refused(InvalidConstraintError, text, position, what)
