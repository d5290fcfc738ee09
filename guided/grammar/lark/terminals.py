"""The terminals of a Lark grammar as expressions over text.

A literal in quotes is its text, a pattern in slashes is read by Python's rules; terminals that
refer to others are written out. A look-around at the edge of a terminal is split from it, because
it is about the text around the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from guided.errors import ConstraintError, UnsupportedFeatureError
from guided.grammar.context_free import Terminal
from guided.grammar.lark.definitions import terminal_of
from guided.grammar.lark.source import Definition, Source
from guided.grammar.lark.syntax import (
    Alternatives,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    Tree,
)
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.expression import (
    EMPTY_TEXT,
    Alternate,
    Chars,
    Concat,
    Regular,
    Repeat,
    literal,
)
from guided.regular.patterns.character_classes import any_case
from guided.regular.patterns.python import parse_python_regex
from guided.regular.patterns.terminal_edges import split_edges
from guided.runtime.fuel import spend

__all__ = ["Pieces", "Terminals", "regular_of_literal"]

Pieces: TypeAlias = tuple[Terminal, ...]
"""The terminals that a terminal is a choice of."""


class Terminals:
    """Terminals by definition and by what is written in a rule, each made once."""

    def __init__(self) -> None:
        self._pieces: dict[Definition, Pieces] = {}
        self._written: dict[tuple[Source, str], Pieces] = {}
        """By grammar and what is written there; errors point to the first place of it."""
        self._texts: dict[Definition, Regular] = {}
        """Expressions, edges not yet split off, of terminals and of all that they refer to."""

    def of(self, definition: Definition) -> Pieces:
        """Return the pieces of a terminal with a name.

        This and the two methods below raise InvalidConstraintError or UnsupportedFeatureError, with
        a position, and LimitExceededError.
        """
        pieces = self._pieces.get(definition)
        if pieces is None:
            pieces = _split(self._text_of(definition), definition.source, definition.position)
            self._pieces[definition] = pieces
        return pieces

    def of_body(self, tree: Tree, source: Source, position: int) -> Pieces:
        """Return the pieces of a body that has no name."""
        return _split(self._of(tree, source), source, position)

    def of_literal(self, tree: Literal | Range, source: Source) -> Pieces:
        """Return the pieces of a literal or a range inside a rule."""
        key = source, tree.text
        pieces = self._written.get(key)
        if pieces is None:
            pieces = self._written[key] = _split(self._of(tree, source), source, tree.position)
        return pieces

    def _text_of(self, definition: Definition) -> Regular:
        """Return the expression of a terminal with all that it refers to written out."""
        text = self._texts.get(definition)
        if text is None:
            options = tuple([self._of(*body) for body in definition.bodies])
            text = options[0] if len(options) == 1 else Alternate(options)
            self._texts[definition] = text
        return text

    def _of(self, tree: Tree, source: Source) -> Regular:
        """Return the expression of a part of a terminal.

        Recursive: ``definitions`` has checked that no terminal contains itself, and how deep and
        how large they become. It has also refused templates and special tokens in them.
        """
        spend(20)
        match tree:
            case Name():
                return self._text_of(terminal_of(tree, source))
            case Literal():
                return regular_of_literal(tree, source)
            case Range():
                return regular_of_range(tree, source)
            case Series(parts):
                return _series([self._of(part, source) for part in parts])
            case Alternatives(options):
                return Alternate(tuple([self._of(option, source) for option in options]))
            case Repeated(item, low, high):
                return Repeat(self._of(item, source), low, high)
        raise AssertionError("templates and special tokens were refused before")


def _series(parts: Iterable[Regular]) -> Regular:
    kept = tuple([part for part in parts if part != EMPTY_TEXT])
    return kept[0] if len(kept) == 1 else Concat(kept)


def _split(regular: Regular, source: Source, position: int) -> Pieces:
    """Return the terminals that an expression is a choice of; errors point to ``position``."""
    try:
        pieces = split_edges(regular)
    except UnsupportedFeatureError as error:
        raise source.error(position, error.message, type(error), error.hint) from error
    return tuple([Terminal(text, before, after) for before, text, after in pieces])


# --- literals ------------------------------------------------------------------------------

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


class _WrongEscapeError(ValueError):
    """An escape that stands for no character."""


def regular_of_literal(written: Literal, source: Source) -> Regular:
    """Return the texts of a literal: a text in quotes as it is, a pattern as Python reads it.

    Raises InvalidConstraintError or UnsupportedFeatureError, with the position of its beginning.
    """
    begin, position = written.text[0], written.position
    # Only flags follow the closing quote or slash, so it is the last one.
    end = written.text.rindex(begin)
    inner, flags = written.text[1:end], written.text[end + 1 :]
    if "\n" in inner and "x" not in flags:
        raise source.error(position, "a pattern of several lines needs the flag x")
    try:
        text = _unescaped(inner)
    except _WrongEscapeError as wrong:
        raise source.error(
            position, f"{written.text} has an escape that stands for nothing"
        ) from wrong
    if not text:
        raise source.error(position, "an empty literal: what may be left out is written with a ?")
    if begin == '"':
        # ``_unescaped`` leaves escaped backslashes as they are, for patterns; here each is one.
        made = literal(text.replace("\\\\", "\\"))
        # A text in quotes can only have the flag "i": the parser accepts no other.
        return _any_case(made) if flags else made
    if "l" in flags:
        raise source.error(
            position,
            "the flag 'l', which depends on the locale, is not supported",
            UnsupportedFeatureError,
        )
    number = 0
    for flag in flags:
        number |= _FLAGS[flag]
    try:
        return parse_python_regex(text, number)
    except ConstraintError as error:
        raise source.error(position, error.message, type(error), error.hint) from error


def regular_of_range(written: Range, source: Source) -> Regular:
    """Return the characters of a range; raises what ``regular_of_literal`` raises.

    As in Lark an escaped backslash is two characters here, and so cannot be an end of a range.
    """
    whole, position = written.text, written.position
    try:
        low, high = _unescaped(written.first.text[1:-1]), _unescaped(written.last.text[1:-1])
    except _WrongEscapeError as error:
        raise source.error(position, f"{whole} has an escape that stands for nothing") from error
    if len(low) != 1 or len(high) != 1 or low > high:
        raise source.error(position, f"{whole} is no range of characters")
    return Chars(CodePoints.of([(ord(low), ord(high))]))


def _unescaped(text: str) -> str:
    """Return a text with escapes of characters resolved; others stay for the reader of patterns.

    Line breaks become ``\\n``. Raises _WrongEscapeError for what stands for no character.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if "\\" not in text else _ESCAPE.sub(_meant, text)


def _meant(escape: re.Match[str]) -> str:
    """Return the text for an escape; the escape itself if the reader of patterns needs it."""
    kind = str(escape.lastgroup)
    found = escape[kind]
    match kind:
        case "control":
            return _CONTROLS[found]
        case "two" | "four" | "eight":
            number = int(found, 16)
            if number > MAX_CODE_POINT:
                raise _WrongEscapeError
            return chr(number)
        case "wrong":
            raise _WrongEscapeError
        case "quote":
            # Lark keeps one backslash of an escaped one before a quote: it means the quote.
            return '\\"' if len(found) > 1 else '"'
    return escape[0]


def _any_case(text: Regular) -> Regular:
    """Return a text made by ``literal``, a sequence of characters, in capital or small letters."""
    assert isinstance(text, Concat)
    parts = [part.chars for part in text.parts if isinstance(part, Chars)]
    return Concat(tuple([Chars(any_case(chars)) for chars in parts]))
