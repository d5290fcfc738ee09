"""The tokens of EBNF grammars, and the regular expressions of literals and character classes."""

from __future__ import annotations

import re
import string
from typing import Final, NamedTuple

from guided.errors import ConstraintError, InvalidConstraintError, UnsupportedFeatureError
from guided.grammar.token_parser import Token
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints, is_surrogate, lone_surrogate
from guided.regular.expression import Chars, Regular, literal
from guided.runtime.work_budget import spend
from guided.spec.source_position import SourcePosition

__all__ = ["error_at", "parse_class", "parse_literal", "tokenize"]

# The first that matches wins: a macro or a dotted name before a name, and ``(=`` before ``(``.
_TOKEN: Final = re.compile(
    r"""
    (?P<blank>(?:[ \t\r\n]|\#[^\r\n]*)+)
    | (?P<macro>(?:TagDispatch|TokenTagDispatch|Token|ExcludeToken|Regex|Substring)[ \t]*\()
    | (?P<dotted>[\w-]+\.[\w-][\w.-]*)
    | (?P<name>[\w-]+)
    | (?P<defined>::=)
    | (?P<literal>"(?:\\.|[^"\\])*")
    | (?P<class>\[(?:\\.|[^]\\])*\])
    | (?P<bounds>\{[ \t]*\d+[ \t]*(?:,[ \t]*\d*[ \t]*)?\})
    | (?P<ahead>\(=)
    | (?P<special><[^<>\s]+>)
    | (?P<other>!<[^<>\s]+>)
    | (?P<header>%llguidance)
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
_WITHOUT_TOKENS: Final = "write .* for any text, which has no special tokens in it"
_UNSUPPORTED: Final = {
    "TagDispatch": (
        "TagDispatch, free text with tags in it, is not supported",
        "use guided.Tagged instead of a grammar, or a structural tag",
    ),
    "TokenTagDispatch": (
        "TokenTagDispatch, free text with tokens in it, is not supported",
        "write (.* <name> rule)* .*, with the name of the special token",
    ),
    "Token": (
        "Token, a token by its number, is not supported",
        "write the name of the special token, such as <|python_tag|>",
    ),
    "ExcludeToken": ("ExcludeToken, any token but some, is not supported", _WITHOUT_TOKENS),
    "Regex": (
        "Regex, a pattern inside of a rule, is not supported",
        "write it as rules, or use guided.Lark, where patterns stand between slashes",
    ),
    "Substring": (
        "Substring, the pieces of a text, is not supported",
        "list them as alternatives, or use guided.Choice",
    ),
    "other": ("any token but one is not supported", _WITHOUT_TOKENS),
    "header": (
        "%llguidance begins a grammar in Lark's format",
        "pass it as guided.Lark, on the command line in a file *.lark",
    ),
    "dotted": (
        "a name with a dot is not supported",
        "rename the rule; a dot that stands for any character wants a space before it",
    ),
}


def tokenize(text: str) -> list[Token]:
    """Return the tokens in order without blanks and comments, last one of kind "end".

    Raises InvalidConstraintError or UnsupportedFeatureError, with the position.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        spend(5)
        found = _TOKEN.match(text, position)
        if found is None:
            sign = text[position]
            what = _UNFINISHED.get(sign, f"{sign!r} means nothing here")
            raise error_at(InvalidConstraintError, text, position, what)
        kind = str(found.lastgroup)
        form = found[0].rstrip(" \t(") if kind == "macro" else kind
        if form in _UNSUPPORTED:
            what, hint = _UNSUPPORTED[form]
            raise error_at(UnsupportedFeatureError, text, position, what, hint)
        if kind != "blank":
            tokens.append(Token(found[0] if kind == "sign" else kind, found[0], position))
        position = found.end()
    tokens.append(Token("end", "the end", position))
    return tokens


def error_at(
    error: type[ConstraintError], text: str, position: int, what: str, hint: str | None = None
) -> ConstraintError:
    """Return an error for a position in the text, with line, column and a caret; does not raise."""
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
_CLASS_ESCAPES: Final = "dDsSwW"
"""Letters of class escapes such as ``\\d``, which are not supported."""
_CHARACTER_WORK: Final = 15
"""Units of work per character of a literal or class."""
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


class _Character(NamedTuple):
    """A character of a literal or a class, and its position in the grammar."""

    code_point: int
    position: int
    is_plain: bool
    """Whether it is not an escape; only then can ``^`` or a dash be a sign."""


def parse_literal(text: str, token: Token) -> Regular:
    """Return the regular expression of a quoted literal.

    Raises InvalidConstraintError if it contains a surrogate or an invalid escape.
    """
    characters = _parse_characters(text, token)
    for one in characters:
        if is_surrogate(one.code_point):
            raise error_at(
                InvalidConstraintError, text, one.position,
                "a surrogate is half of a character and no text",
                r"write the whole one, such as \U0001F600",
            )  # fmt: skip
    return literal("".join(chr(one.code_point) for one in characters))


def parse_class(text: str, token: Token) -> Regular:
    """Return the regular expression of a character class, negated after a ``^``.

    A dash at either end or after a range is itself. Raises InvalidConstraintError for an invalid
    range or escape, and for a class without characters.
    """
    listed = _parse_characters(text, token)
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
                raise error_at(
                    InvalidConstraintError, text, low.position, "the range ends before it begins"
                )
            ranges.append((low.code_point, high.code_point))
            index += 3
        else:
            ranges.append((low.code_point, low.code_point))
            index += 1
    if not negative and lone_surrogate(ranges) is not None:
        raise error_at(
            InvalidConstraintError, text, token.position,
            "the class lists a surrogate, which is half of a character",
            r"write the whole one, such as \U0001F600",
        )  # fmt: skip
    chars = CodePoints.from_ranges(ranges)
    # Implementations disagree on what a class without characters matches.
    if not listed or not (chars := ~chars if negative else chars):
        raise error_at(InvalidConstraintError, text, token.position, "the class has no characters")
    return Chars(chars)


def _is_dash(character: _Character) -> bool:
    return character.code_point == ord("-")


def _parse_characters(text: str, token: Token) -> list[_Character]:
    """Return the characters between the delimiters of a token, with escapes resolved."""
    begin, end = token.position + 1, token.position + len(token.text) - 1
    spend(_CHARACTER_WORK * (end - begin))
    return [_parse_character(text, found) for found in _CHARACTER.finditer(text, begin, end)]


def _parse_character(text: str, found: re.Match[str]) -> _Character:
    """Return the character of a match of _CHARACTER; it may be a surrogate."""
    position, group = found.start(), str(found.lastgroup)
    if group == "plain":
        return _Character(ord(found[0]), position, True)
    if group != "escaped":
        code_point = int(found[group], 16)
        if code_point > MAX_CODE_POINT:
            raise error_at(
                InvalidConstraintError, text, position, f"{found[0]} is beyond all characters"
            )
        return _Character(code_point, position, False)
    letter = found["escaped"]
    if letter not in _ESCAPES:
        raise _invalid_escape(text, position, letter)
    return _Character(ord(_ESCAPES[letter]), position, False)


def _invalid_escape(text: str, position: int, letter: str) -> ConstraintError:
    """Return the error for a backslash before a letter that is no escape."""
    if letter in _CLASS_ESCAPES:
        return error_at(
            UnsupportedFeatureError, text, position, f"the class \\{letter} is not supported",
            "list its characters, such as [0-9]",
        )  # fmt: skip
    what = f"\\{letter} is no escape"
    if letter in _HEX_DIGITS:
        what = f"\\{letter} wants {_HEX_DIGITS[letter]} hexadecimal digits"
    return error_at(InvalidConstraintError, text, position, what)
