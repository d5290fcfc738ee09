"""Lowers the terminals of a Lark grammar to regular expressions over text.

A quoted literal is its text, a pattern in slashes is read by Python's rules, and references to
other terminals are expanded. Look-arounds at the edges of a terminal are split off, as they see
the text around it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from guided.errors import ConstraintError, UnsupportedFeatureError
from guided.grammar.context_free import Terminal
from guided.grammar.lark.definitions import resolve_terminal
from guided.grammar.lark.source import Definition, Source
from guided.grammar.lark.syntax import (
    Alternatives,
    Common,
    Complement,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    Shortest,
    Tree,
)
from guided.regular.codepoints import (
    ANY,
    MAX_CODE_POINT,
    CodePoints,
    is_surrogate,
    lone_surrogate,
)
from guided.regular.dfa import DEAD, dfa_from_regular
from guided.regular.expression import (
    ANYTHING,
    EMPTY_TEXT,
    Alternate,
    Chars,
    Concat,
    Intersection,
    Regular,
    Repeat,
    literal,
)
from guided.regular.patterns.character_classes import python_case_closure
from guided.regular.patterns.python import parse_python_regex
from guided.regular.patterns.terminal_edges import split_edges
from guided.runtime.work_budget import spend

__all__ = ["Pieces", "TerminalLowering", "parse_literal"]

Pieces: TypeAlias = tuple[Terminal, ...]
"""The alternatives that a terminal is split into: its edges may differ between them."""


class TerminalLowering:
    """Lowers terminals, literals and ranges, each once; results are cached."""

    def __init__(self) -> None:
        self._pieces_by_definition: dict[Definition, Pieces] = {}
        self._pieces_by_literal: dict[tuple[Source, str], Pieces] = {}
        """By grammar and source text of the literal; errors point to its first occurrence."""
        self._expression_by_definition: dict[Definition, Regular] = {}
        """By terminal its expression, with references expanded and edges not split off."""

    def lower(self, definition: Definition) -> Pieces:
        """Return the pieces of a terminal.

        This and the two methods below raise InvalidConstraintError or UnsupportedFeatureError, with
        a position, and LimitExceededError.
        """
        pieces = self._pieces_by_definition.get(definition)
        if pieces is None:
            pieces = _terminals_of(
                self._definition_expression(definition), definition.source, definition.position
            )
            self._pieces_by_definition[definition] = pieces
        return pieces

    def lower_body(self, tree: Tree, source: Source, position: int) -> Pieces:
        """Return the pieces of an anonymous terminal, such as that of ``%ignore``; not cached."""
        return _terminals_of(self._body_expression(tree, source), source, position)

    def lower_literal(self, tree: Literal | Range, source: Source) -> Pieces:
        """Return the pieces of a literal or a range inside a rule."""
        key = source, tree.text
        pieces = self._pieces_by_literal.get(key)
        if pieces is None:
            pieces = self._pieces_by_literal[key] = _terminals_of(
                self._body_expression(tree, source), source, tree.position
            )
        return pieces

    def _definition_expression(self, definition: Definition) -> Regular:
        """Return the expression of a terminal with all references expanded; cached."""
        expression = self._expression_by_definition.get(definition)
        if expression is None:
            options = tuple([self._body_expression(*body) for body in definition.bodies])
            expression = options[0] if len(options) == 1 else Alternate(options)
            self._expression_by_definition[definition] = expression
        return expression

    def _body_expression(self, tree: Tree, source: Source) -> Regular:
        """Return the expression of a part of a terminal.

        Recursive: ``definitions`` has checked that terminals contain no cycles, templates or
        special tokens, and how deep and large they become.
        """
        spend(20)
        match tree:
            case Name():
                return self._definition_expression(resolve_terminal(tree, source))
            case Literal():
                return parse_literal(tree, source)
            case Range():
                return parse_range(tree, source)
            case Series(parts):
                return _concatenate([self._body_expression(part, source) for part in parts])
            case Alternatives(options):
                return Alternate(
                    tuple([self._body_expression(option, source) for option in options])
                )
            case Repeated(item, low, high):
                return Repeat(self._body_expression(item, source), low, high)
            case Common(parts, position):
                sides = [self._whole_expression(part, source, position) for part in parts]
                return _as_part(functools.reduce(Intersection, sides))
            case Complement(item, position):
                excluded = self._whole_expression(item, source, position)
                return _as_part(Intersection(ANYTHING, excluded, negative=True))
            case Shortest():
                return self._shortest_texts(tree, source)
        raise AssertionError("templates and special tokens were refused before")

    def _shortest_texts(self, tree: Shortest, source: Source) -> Regular:
        """Return the expression of the texts that do not begin with another one.

        Raises UnsupportedFeatureError if the empty text is one: then it is the only one by the
        documentation of llguidance, while its parser also takes the next ones.
        """
        texts = self._whole_expression(tree.item, source, tree.position)
        longer = Concat((texts, Chars(ANY), ANYTHING))
        shortest = dfa_from_regular(Intersection(texts, longer, negative=True))
        if len(shortest) and shortest.label[0] != DEAD:
            raise source.error(
                tree.position,
                "a lazy rule that may be empty always is",
                UnsupportedFeatureError,
                "say by suffix= what ends its texts, or leave out lazy",
            )
        return shortest.to_regular()

    def _whole_expression(self, tree: Tree, source: Source, position: int) -> Regular:
        """Return the expression of a part that is matched by itself: a side of ``&``, for example.

        Raises UnsupportedFeatureError, at ``position``, if it looks at the text around it.
        """
        pieces = _terminals_of(self._body_expression(tree, source), source, position)
        if any(piece.before or piece.after for piece in pieces):
            raise source.error(
                position,
                "look-around at the edge of what &, ~, lazy or suffix= applies to is not supported",
                UnsupportedFeatureError,
                "say it with the terminals that may stand there",
            )
        expressions = tuple([piece.regular for piece in pieces])
        return expressions[0] if len(expressions) == 1 else Alternate(expressions)


def _as_part(whole: Regular) -> Regular:
    """Return an expression of the same texts that may be a part of others."""
    return dfa_from_regular(whole).to_regular()


def _concatenate(parts: Iterable[Regular]) -> Regular:
    """Return the concatenation of the parts, without empty ones; a single one as itself."""
    kept = tuple([part for part in parts if part != EMPTY_TEXT])
    return kept[0] if len(kept) == 1 else Concat(kept)


def _terminals_of(regular: Regular, source: Source, position: int) -> Pieces:
    """Return the terminals of an expression, edges split off; errors point to ``position``."""
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


class _InvalidEscapeError(ValueError):
    """An escape that means no character."""


def parse_literal(tree: Literal, source: Source) -> Regular:
    """Return the expression of a literal: a quoted text, or a pattern in Python's syntax.

    Raises InvalidConstraintError or UnsupportedFeatureError, with the position of its beginning.
    """
    quote, position = tree.text[0], tree.position
    # Only flags follow the closing quote or slash, so it is the last one.
    end = tree.text.rindex(quote)
    inner, flags = tree.text[1:end], tree.text[end + 1 :]
    if "\n" in inner and "x" not in flags:
        raise source.error(position, "a pattern of several lines needs the flag x")
    try:
        text = _unescape(inner)
    except _InvalidEscapeError as wrong:
        raise source.error(
            position, f"{tree.text} has an escape that stands for nothing"
        ) from wrong
    if not text:
        raise source.error(position, "an empty literal: what may be left out is written with a ?")
    if quote == '"':
        if any(is_surrogate(ord(character)) for character in text):
            raise source.error(position, f"{tree.text} has a surrogate, half of a character")
        # ``_unescape`` keeps escaped backslashes, for patterns. As in Lark, an escape that means
        # nothing, such as \., stays two characters.
        regular = literal(text.replace("\\\\", "\\"))
        # The parser accepts no flag but "i" after a quoted text.
        return _ignore_case(regular) if flags else regular
    if "l" in flags:
        raise source.error(
            position,
            "the flag 'l', which depends on the locale, is not supported",
            UnsupportedFeatureError,
        )
    python_flags = 0
    for flag in flags:
        python_flags |= _FLAGS[flag]
    try:
        return parse_python_regex(text, python_flags)
    except ConstraintError as error:
        raise source.error(position, error.message, type(error), error.hint) from error


def parse_range(tree: Range, source: Source) -> Regular:
    """Return the expression of a range of characters; raises as ``parse_literal`` does.

    As in Lark an escaped backslash is two characters here, so it cannot be an end of a range, and
    flags are not split off.
    """
    whole, position = tree.text, tree.position
    try:
        low, high = _unescape(tree.first.text[1:-1]), _unescape(tree.last.text[1:-1])
    except _InvalidEscapeError as error:
        raise source.error(position, f"{whole} has an escape that stands for nothing") from error
    if len(low) != 1 or len(high) != 1 or low > high:
        raise source.error(position, f"{whole} is no range of characters")
    ends = (ord(low), ord(high))
    if lone_surrogate([ends]) is not None:
        raise source.error(position, f"{whole} has only surrogates, halves of characters")
    return Chars(CodePoints.from_ranges([ends]))


def _unescape(text: str) -> str:
    """Return a text with escapes of characters resolved; others stay, for the parser of patterns.

    Line breaks become ``\\n``. Raises _InvalidEscapeError.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if "\\" not in text else _ESCAPE.sub(_resolve_escape, text)


def _resolve_escape(escape: re.Match[str]) -> str:
    """Return the character of an escape; the escape itself if the parser of patterns needs it."""
    kind = str(escape.lastgroup)
    found = escape[kind]
    match kind:
        case "control":
            return _CONTROLS[found]
        case "two" | "four" | "eight":
            number = int(found, 16)
            if number > MAX_CODE_POINT:
                raise _InvalidEscapeError
            return chr(number)
        case "wrong":
            raise _InvalidEscapeError
        case "quote":
            # Lark keeps one backslash of an escaped one before a quote: it means the quote.
            return '\\"' if len(found) > 1 else '"'
    return escape[0]


def _ignore_case(text: Regular) -> Regular:
    """Return a result of ``literal``, a sequence of characters, matched in any case."""
    assert isinstance(text, Concat)
    parts = [part.chars for part in text.parts if isinstance(part, Chars)]
    return Concat(tuple([Chars(python_case_closure(chars)) for chars in parts]))
