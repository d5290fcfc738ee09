"""The terminals of a Lark grammar as expressions over text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from lark.exceptions import GrammarError
from lark.lexer import PatternStr
from lark.load_grammar import _literal_to_pattern, eval_escaping

from guided.automata.codepoints import CodePoints
from guided.automata.fuel import spend
from guided.automata.regular import Alternate, Chars, Concat, Regular, Repeat, literal
from guided.errors import ConstraintError, InvalidConstraintError, UnsupportedFeatureError
from guided.frontends.lark.repeats import repeat_bounds
from guided.frontends.place import Place
from guided.frontends.regex.case import any_case
from guided.frontends.regex.edges import parted
from guided.frontends.regex.python import parse_python_regex
from guided.grammar.context_free import Terminal

__all__ = ["Terminals"]

Pieces = tuple[Terminal, ...]

_FLAGS = {"i": re.I, "m": re.M, "s": re.S, "l": re.L, "u": re.U, "x": re.X}


class Terminals:
    """Terminals by name and by what is written in a rule, each made once."""

    def __init__(self, text: str, trees: Mapping[str, Any]) -> None:
        self._text = text
        self._trees = trees
        self._named: dict[str, Pieces] = {}
        self._written: dict[str, Pieces] = {}
        self._parts: dict[int, Regular] = {}

    def named(self, name: str) -> Pieces:
        """What the terminal that the grammar defines under a name is a choice of."""
        terminal = self._named.get(name)
        if terminal is None:
            place = Place.of_name(self._text, name)
            if name not in self._trees:
                raise UnsupportedFeatureError(
                    place.message(f"{name!r}, which a constraint fills, cannot be ignored"),
                    position=place.position,
                    hint="use it in a rule",
                )
            terminal = self._named[name] = self._whole(self._of(self._trees[name]), place)
        return terminal

    def written(self, tree: Any) -> Pieces:
        """What the terminal of a literal or a range inside of a rule is a choice of."""
        key = "..".join(tree.children)
        terminal = self._written.get(key)
        if terminal is None:
            place = Place.of_token(self._text, tree.children[0])
            terminal = self._written[key] = self._whole(self._of(tree), place)
        return terminal

    def _whole(self, regular: Regular, place: Place) -> Pieces:
        try:
            pieces = parted(regular)
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(
                place.message(error.message), position=place.position, hint=error.hint
            ) from error
        return tuple(Terminal(text, before, after) for before, text, after in pieces)

    def _of(self, tree: Any) -> Regular:
        """A part of a terminal; parts that are used again are made once."""
        known = self._parts.get(id(tree))
        if known is None:
            spend(20)
            known = self._parts[id(tree)] = self._made(tree)
        return known

    def _made(self, tree: Any) -> Regular:
        match tree.data:
            case "expansions":
                options = tuple(map(self._of, tree.children))
                return options[0] if len(options) == 1 else Alternate(options)
            case "expansion":
                parts = [self._of(child) for child in tree.children]
                parts = [part for part in parts if part != Concat(())]
                return parts[0] if len(parts) == 1 else Concat(tuple(parts))
            case "value":
                return self._of(tree.children[0])
            case "alias":
                self._refuse(tree, "an alias inside of a terminal")
            case "maybe":
                return Repeat(self._of(tree.children[0]), 0, 1)
            case "expr":
                low, high = repeat_bounds(self._text, tree.children[1:])
                return Repeat(self._of(tree.children[0]), low, high)
            case "literal":
                return self._literal(tree.children[0])
            case "range":
                return self._range(*tree.children)
        self._refuse(tree, f"{tree.data} inside of a terminal")

    def _literal(self, token: Any) -> Regular:
        place = Place.of_token(self._text, token)
        try:
            pattern = _literal_to_pattern(token)  # type: ignore[no-untyped-call]
        except (GrammarError, ValueError) as error:
            raise InvalidConstraintError(place.message(str(error))) from error
        if isinstance(pattern, PatternStr):
            made = literal(pattern.value)
            return _any_case(made) if "i" in pattern.flags else made
        flags = 0
        for flag in pattern.flags:
            flags |= _FLAGS[flag]
        if flags & re.LOCALE:
            self._refuse_at(place, "the flag 'l', which depends on the locale,")
        try:
            return parse_python_regex(pattern.value, flags)
        except ConstraintError as error:
            raise type(error)(
                place.message(error.message), position=place.position, hint=error.hint
            ) from error

    def _range(self, first: Any, last: Any) -> Regular:
        place = Place.of_token(self._text, first)
        try:
            low, high = (
                eval_escaping(str(token)[1:-1])  # type: ignore[no-untyped-call]
                for token in (first, last)
            )
        except (GrammarError, ValueError) as error:
            raise InvalidConstraintError(
                place.message(f"{first}..{last} has an escape that stands for nothing"),
                position=place.position,
            ) from error
        if len(low) != 1 or len(high) != 1 or low > high:
            raise InvalidConstraintError(
                place.message(f"{first}..{last} is no range of characters"),
                position=place.position,
            )
        return Chars(CodePoints.of([(ord(low), ord(high))]))

    def _refuse(self, tree: Any, what: str) -> NoReturn:
        token = next(iter(tree.scan_values(lambda value: hasattr(value, "start_pos"))), None)
        self._refuse_at(
            Place(self._text, None) if token is None else Place.of_token(self._text, token), what
        )

    def _refuse_at(self, place: Place, what: str) -> NoReturn:
        raise UnsupportedFeatureError(
            place.message(f"{what} is not supported"), position=place.position
        )


def _any_case(text: Regular) -> Regular:
    assert isinstance(text, Concat)
    parts = (part.chars for part in text.parts if isinstance(part, Chars))
    return Concat(tuple(Chars(any_case(chars)) for chars in parts))
